"""Split a dataset into train, eval and test files without leaks.

    bert-tf data split --input_file=reviews.csv --output_dir=parts \\
        --eval_share=0.1
    bert-tf data split --input_file=reviews.csv --output_dir=parts \\
        --eval_share=0.1 --test_share=0.1 --group_column=user

Identical texts never end up in different files, and each file has about the
same label distribution.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.utils.counts import percent
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as


@dataclasses.dataclass(frozen=True)
class SplitSettings(UserSettings):
    """Options for splitting a dataset."""

    GROUP: ClassVar[str] = "Data"

    input_file: str | None = option(
        None,
        "Dataset to split: .tsv, .csv, .jsonl or .parquet; the first three may be gzipped (.gz).",
        required=True, essential=True,
    )
    output_dir: str | None = option(
        None,
        "Directory for the files train, eval and test, each with the extension of the input.",
        required=True, group="Output", essential=True,
    )
    eval_share: float = option(0.1, "Fraction of the rows in the eval file.")
    test_share: float = option(0.0, "Fraction of the rows in the test file, kept for a final test; 0 writes no such "
                                    "file.")
    group_column: str | None = option(
        None,
        "Column, by name or by number from 0, whose equal values stay together, such as a user.",
    )
    seed: int = option(0, "Random seed of the split.", low=0)
    header: bool = option_as(ClassificationOptions, "header")
    separator: str | None = option_as(ClassificationOptions, "separator")
    encoding: str | None = option_as(ClassificationOptions, "encoding")
    text_column: Sequence[str] = option_as(ClassificationOptions, "text_column")
    label_column: str = option_as(ClassificationOptions, "label_column")
    problem_type: str = option_as(ClassificationOptions, "problem_type")
    label_separator: str = option_as(ClassificationOptions, "label_separator")


SETTINGS = SplitSettings
FLAGS = flags_of(SETTINGS)

_SHOWN = 20  # labels in the table


def main(settings: SplitSettings):
    """Writes the parts, and prints what each has."""
    from bert_tf.data.dialect import Dialect
    from bert_tf.data.row_groups import group_sizes
    from bert_tf.data.splitting import Columns, split_table

    columns = Columns(
        settings.text_column, settings.label_column, settings.group_column, settings.header, settings.problem_type,
        settings.label_separator, Dialect(settings.separator, settings.encoding),
    )  # fmt: skip
    done = split_table(
        settings.input_file, settings.output_dir, settings.eval_share, settings.test_share, columns, settings.seed
    )
    for line in _aligned(_rows(done)):
        print(line)
    several = [size for size in group_sizes(done.texts) if size > 1]
    print(f"Groups of identical texts: {len(several):,}, with {sum(several):,} rows; each is in one file.")
    if settings.group_column:
        sizes = group_sizes(done.units)
        print(f"Groups by text and {settings.group_column}: {len(sizes):,}, the largest with {max(sizes):,} rows.")
    logging.info("Wrote %s.", ", ".join(done.paths.values()))
    lost = sorted(set().union(*done.counts()) - set(done.counts()[0]))
    if lost:
        logging.warning("No training row has the label %s.", ", ".join(map(repr, lost[:_SHOWN])))


def _rows(done):
    """Returns the table's rows of cells: how many rows a part has, and of them each label."""
    sizes = done.sizes()
    rows = [["", *map(os.path.basename, done.paths.values())]]
    rows.append(["requested", *(f"{100 * share:g}%" for share in done.shares.values())])
    rows.append(["rows", *(_share(size, sum(sizes)) for size in sizes)])
    counts = done.counts()
    labels = sorted(set().union(*counts), key=lambda name: (-sum(each[name] for each in counts), name))
    for name in labels[:_SHOWN]:
        rows.append([f"  {name:.40}", *(_share(each[name], size) for each, size in zip(counts, sizes, strict=True))])
    return rows + [[f"  and {len(labels) - _SHOWN:,} more labels"]] * (len(labels) > _SHOWN)


def _share(count, of):
    return f"{count:,} ({percent(count / of)})"


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    for name, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=False))
        yield "  ".join([name.ljust(widths[0]), *cells]).rstrip()
