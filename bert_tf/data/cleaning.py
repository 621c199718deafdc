"""Cleaning of tables: finds and corrects what goes wrong in exports, and writes a new table."""

import dataclasses
import html
import html.entities
import json
import os
import re
import unicodedata
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.columns import is_missing_cell
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of
from bert_tf.data.near_duplicates import group_near_duplicates
from bert_tf.data.row_errors import line_position
from bert_tf.data.row_groups import group_by_texts
from bert_tf.data.table_columns import Column
from bert_tf.data.tables import is_empty
from bert_tf.data.whole_rows import read_whole_rows, write_whole_rows
from bert_tf.utils.names import CLEANING_KINDS

_ENTITY = re.compile(r"&(#\d+|#[xX][0-9a-fA-F]+|\w+);")  # with a semicolon: "?a=1&copy=2" is an address
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " ")  # no-break spaces
_SPACES |= dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))  # zero-width ones; joiners are part of emoji and words
_NULLS = ("", "NULL", "null", "NaN", "nan", "NAN", "None", "N/A", "#N/A", "<NA>")


def _unescape(text):
    """Replaces HTML entities, including those that were escaped twice."""

    def character(match):  # html.unescape alone would make "¬ify;" of "&notify;"
        return html.unescape(match[0]) if match[0][1] == "#" or match[0][1:] in html.entities.html5 else match[0]

    while (plain := _ENTITY.sub(character, text)) != text:
        text = plain
    return text


def _without_controls(text):
    """Removes control characters except tabs and line ends; those that break lines become spaces."""
    return "".join(
        char if unicodedata.category(char) != "Cc" or char in "\t\n\r" else " " if char.isspace() else ""
        for char in text
    )


_CORRECTIONS: dict[str, Callable[[str], str]] = {
    "html_entities": _unescape,
    "control_characters": _without_controls,
    "special_spaces": lambda text: text.translate(_SPACES),
}
_SHOWN = 3  # examples of a kind


@dataclasses.dataclass
class CleaningFinding:
    """What was found of one kind.

    Attributes:
        kind: one of `CLEANING_KINDS`.
        is_fixed: whether texts were corrected, or rows dropped.
        count: number of cells or rows.
        examples: the first three, {"position": "file:line", "before", "after", "earlier"}: a text as it was and as it
            is now, and of a repeated row, the position of the earlier one.
    """

    kind: str
    is_fixed: bool
    count: int = 0
    examples: list[dict[str, str | None]] = dataclasses.field(default_factory=list)

    def add(self, position: str, before: Any, after: str | None = None, earlier: str | None = None):
        """Counts a cell or a row."""
        self.count += 1
        if len(self.examples) < _SHOWN:
            self.examples.append({"position": position, "before": str(before), "after": after, "earlier": earlier})


@dataclasses.dataclass(frozen=True)
class CleaningReport:
    """The result of cleaning a table: its number of rows, that of the rows kept, and a finding of each kind."""

    rows: int
    kept: int
    findings: list[CleaningFinding]


def clean_table(
    path: str,
    output: str | None,
    text_columns: Sequence[str | int] = ("text",),
    label_column: str | int | None = "label",
    header: bool = True,
    dialect: Dialect = DEFAULT_DIALECT,
    fix: Sequence[str] = CLEANING_KINDS[:-1],
    overwrite: bool = False,
) -> CleaningReport:
    """Looks for all of `CLEANING_KINDS` in a table's texts and labels, and writes a new table without those in `fix`.

    The new table has all columns. It is UTF-8, with the separator of its extension; the old one is unchanged.

    Args:
        path: a .tsv, .csv, .jsonl (each also with .gz) or .parquet file.
        output: path of the new table, with the same extension apart from .gz. If None, nothing is written.
        text_columns, label_column, header, dialect: as in `tables.read_table`.
        fix: kinds to correct or drop; the others are only counted. Repeated rows are those with the same label.
        overwrite: replace a file at `output`.

    Raises:
        ValueError: the table cannot be read this way, or `output` exists or has another extension.
        OSError: the output cannot be written.
    """
    if output is not None:
        _check_output(path, output, overwrite)
    columns = [Column(name, "text_column") for name in text_columns]
    columns += [Column(label_column, "label_column")] if label_column not in (None, "") else []
    head, rows, keys = read_whole_rows(path, columns, header, dialect)
    findings = {kind: CleaningFinding(kind, kind in fix) for kind in CLEANING_KINDS}
    count = len(text_columns)
    kept = [i for i, (line, row) in enumerate(rows) if not _clean_row(line_position(path, line), row, keys, count,
                                                                      findings)]  # fmt: skip
    kept = _drop_repeated(path, rows, kept, keys, count, findings)
    if output is not None:
        write_whole_rows(path, output, head, rows, kept, keys)
    return CleaningReport(len(rows), len(kept), list(findings.values()))


def _check_output(path, output, overwrite):
    if os.path.realpath(path) == os.path.realpath(output):
        raise ValueError(f"`output_file` must not be the input file; got {output} for both.")
    if extension_of(path) != extension_of(output):
        raise ValueError(
            f"`output_file` must end in {extension_of(path)}, like {path}; got {output}; rename it."
        )
    if os.path.lexists(output) and not overwrite:
        raise ValueError(f"`output_file` must not exist yet. {output} does; choose a new name, or set `overwrite`.")


def _clean_row(at, row, keys, count, findings) -> bool:
    """Corrects the cells of a row in place; returns whether to drop it."""
    for key in keys:
        for kind, correct in _CORRECTIONS.items():
            if isinstance(row[key], str) and (after := correct(row[key])) != row[key]:
                findings[kind].add(at, row[key], after)
                row[key] = after if findings[kind].is_fixed else row[key]
    is_dropped = False
    for key in keys[count:]:
        label = row[key]
        if isinstance(label, str) and label != (after := label.strip()) and after:
            findings["label_spaces"].add(at, label, after)
            row[key] = after if findings["label_spaces"].is_fixed else label
        if is_missing_cell(label) or isinstance(label, str) and label.strip() in _NULLS:
            findings["null_labels"].add(at, label)
            is_dropped |= findings["null_labels"].is_fixed
    if any(is_empty(row[key]) for key in keys[:count]):
        findings["empty_texts"].add(at, " | ".join(str(row[key]) for key in keys))
        is_dropped |= findings["empty_texts"].is_fixed
    return is_dropped


def _drop_repeated(path, rows, kept, keys, count, findings):
    """Returns the indices without rows whose texts and label an earlier row has, exactly or nearly."""
    texts = [[str(rows[i][1][key]) for key in keys[:count]] for i in kept]
    found, dropped = set(), set()
    for kind, groups in (("duplicates", _group_equal(path, texts)), ("near_duplicates", _group_near(texts))):
        first = {}
        for i, group, own in zip(kept, groups, texts, strict=True):
            if i in found:  # exact duplicates are near, too
                continue
            at = line_position(path, rows[i][0])
            earlier = first.setdefault((group, *(_hashable(rows[i][1][key]) for key in keys[count:])), at)
            if earlier != at:
                findings[kind].add(at, " | ".join(own), earlier=earlier)
                found.add(i)
                dropped |= {i} if findings[kind].is_fixed else set()
    return [i for i in kept if i not in dropped]


def _hashable(value) -> Hashable:
    return json.dumps(value, default=str) if isinstance(value, list | dict) else value


def _group_equal(path, texts):
    names = [f"text_{i}" for i in range(len(texts[0]))] if texts else []
    columns = dict(zip(names, zip(*texts, strict=True), strict=True))
    return group_by_texts(CheckedExamples(path, str, columns)).tolist() if texts else []


def _group_near(texts):
    return group_near_duplicates(["\n".join(each) for each in texts]).tolist()
