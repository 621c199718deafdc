"""Clean a table: HTML entities, control characters, duplicates and more.

    bert-tf data clean --input_file=export.csv --output_file=clean.csv

Writes a new table and reports what was corrected or dropped, with up to three
examples of each kind. The input is never changed. Without --output_file, the
command only prints the report; --fix selects what is corrected.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.utils.counts import number_of
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.names import CLEANING_KINDS
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as


@dataclasses.dataclass(frozen=True)
class CleanDataSettings(UserSettings):
    """Table to clean, and the corrections to make."""

    GROUP: ClassVar[str] = "Output"

    input_file: str | None = option(
        None,
        "Table to clean: .tsv, .csv, .jsonl or .parquet; the first three may be gzipped (.gz).",
        required=True, group="Data", essential=True,
    )
    output_file: str | None = option(
        None,
        "New table, with the extension of --input_file. Text is written in UTF-8, with the default separator. Without "
        "it, the command only prints the report.",
        essential=True,
    )
    fix: Sequence[str] = option(
        list(CLEANING_KINDS[:-1]),
        "Kinds of findings to correct. html_entities, control_characters and special_spaces (no-break and zero-width "
        "ones) are replaced in texts and labels; label_spaces (at the ends of a label) are removed; rows with "
        "null_labels (empty, NULL, NaN, None, N/A), empty_texts, duplicates or near_duplicates (of an earlier row with "
        "the same label) are dropped. Other kinds are only reported. Omit null_labels for a multi-label table, in "
        "which an empty cell means no labels.",
        choices=CLEANING_KINDS, group="Data",
    )
    overwrite: bool = option(False, "Replace --output_file if it exists.")
    json: bool = option(False, "Print the report as JSON.", essential=True)
    header: bool = option_as(ClassificationOptions, "header")
    separator: str | None = option_as(ClassificationOptions, "separator")
    encoding: str | None = option_as(ClassificationOptions, "encoding")
    text_column: Sequence[str] = option_as(ClassificationOptions, "text_column")
    label_column: str = option_as(ClassificationOptions, "label_column")


SETTINGS = CleanDataSettings
FLAGS = flags_of(SETTINGS)


def main(settings: CleanDataSettings):
    """Writes the table, and prints the report."""
    from bert_tf.data.cleaning import clean_table
    from bert_tf.data.dialect import Dialect

    _check(settings)
    report = clean_table(
        settings.input_file, settings.output_file, settings.text_column, settings.label_column, settings.header,
        Dialect(settings.separator, settings.encoding), settings.fix, settings.overwrite,
    )  # fmt: skip
    if settings.json:
        values = {"input_file": settings.input_file, "output_file": settings.output_file, **dataclasses.asdict(report)}
        print(printable_json(values, indent=2))
    else:
        for line in _lines(settings.input_file, report, bool(settings.output_file)):
            print(line)
    if settings.output_file:
        logging.info("Wrote %s: %s of %d.", settings.output_file, number_of(report.kept, "row"), report.rows)


def _check(settings):
    for name in ("fix", "overwrite"):
        if name in settings.given and not settings.output_file:
            raise ValueError(f"`{name}` requires `output_file`. Add `output_file` or remove `{name}`.")


def _lines(path, report, is_written):
    from bert_tf.data.findings import format_positions

    yield f"{path}: {number_of(report.rows, 'row')}, {report.kept:,} after cleaning"
    for finding in report.findings:
        verb = ("fixed" if is_written else "to fix") if finding.is_fixed else "reported"
        yield f"  {finding.kind:<20}{finding.count:>8,}  {verb if finding.count else ''}".rstrip()
        for each in finding.examples:
            (line,) = format_positions(path, [each["position"]])
            before, after, earlier = each["before"], each["after"], each["earlier"]
            if earlier:
                yield f"      {line}: {_excerpt(before)}, like {format_positions(path, [earlier])[0]}"
            elif after is None:
                yield f"      {line}: {_excerpt(before)}"
            else:
                start = max(0, len(os.path.commonprefix([before, after])) - 30) if len(before) > 60 else 0
                yield f"      {line}: {_excerpt(before, start)} -> {_excerpt(after, start)}"


def _excerpt(text, start=0):
    """Returns 60 characters of a text, in quotes."""
    return repr("..." * (start > 0) + text[start : start + 60] + "..." * (start + 60 < len(text)))
