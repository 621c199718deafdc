"""Checks of a file as it is: its encoding, its separator, its rows, and whether line 1 is a header."""

import collections
import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator

from bert_tf.data import findings
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.dialect import SEPARATOR_NAMES, SEPARATORS, QuotedRows, extension_of, separator_name, separator_option
from bert_tf.data.findings import DataFinding, first_lines, format_share
from bert_tf.data.label_checks import FEW_ROWS, is_number
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import names_in
from bert_tf.utils import files
from bert_tf.utils.counts import number_of, word_for

_LOOKED_AT = 1000  # rows whose columns are counted
_EVEN, _UNEVEN = 0.95, 0.8  # share of rows with the most common number of columns, for a right and a wrong separator


def _likely_separator(text: str, extension: str, own: str) -> str | None:
    """Returns the probable separator (a key of SEPARATOR_NAMES) if it differs from the file's own, else None.

    Args:
        text: contents of the file.
        extension: ".tsv" or ".csv".
        own: the separator that the file is read with.
    """
    if _evenness(text, extension, own) >= _UNEVEN:
        return None
    others = {each: _evenness(text, extension, each) for each in SEPARATOR_NAMES if each != own}
    best = max(others, key=others.get)
    return best if others[best] >= _EVEN else None


def _widths(text: str, extension: str, separator: str) -> Iterator[int]:
    """Yields the number of columns of each row that is not blank; stops at invalid CSV.

    Args:
        text, extension: as in `_likely_separator`.
        separator: separator of columns.
    """
    if separator == "\t" or extension == ".tsv":
        yield from (line.count(separator) + 1 for line in text.split("\n") if line and line != "\r")
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        yield from (len(row) for row in reader if row)
    except csv.Error:
        return


def _evenness(text, extension, separator):
    """Returns the fraction of rows with the most common number of columns, which must be at least two."""
    counts = collections.Counter(itertools.islice(_widths(text, extension, separator), _LOOKED_AT))
    width, rows = max(counts.items(), key=lambda item: item[1], default=(1, 0))
    return rows / counts.total() if width > 1 else 0.0


# UTF-8 that was read as Windows-1252 and written as UTF-8 again: é became Ã©, and ’ became â€™.
_DAMAGED = re.compile("[ÃÂ][\u0080-\u00bf]|â€[\u0080-\u00bf™œ˜“”¦]|\ufffd")
_MARKS = ("Ã", "Â", "â€", "\ufffd")
# Common names of columns, in addition to those of the tasks.
_NAMES = {
    "text", "texts", "sentence", "sentence1", "sentence2", "question", "question1", "question2", "review", "comment",
    "content", "body", "message", "tweet", "title", "description", "document", "utterance", "query", "premise",
    "hypothesis", "input", "text_a", "text_b", "label", "labels", "class", "category", "target", "sentiment",
    "gold_label", "score", "rating", "intent", "topic", "tag", "y", "quality",
}  # fmt: skip
_LONG = 4  # words: more than any column name has


def check_raw_file(sample: CheckedExamples) -> Iterator[DataFinding]:
    """Yields signs that a file was written in another format or encoding than it is read with."""
    paths = files.find_files(sample.path)
    if len(paths) == 1:
        yield from _check_file(sample, paths[0])
        return
    for path in paths:
        for finding in _check_file(sample, path):
            yield dataclasses.replace(finding, path=sample.path, what=f"{path}: {finding.what}")


def _check_file(sample, path):
    extension = extension_of(path)
    if extension == ".parquet":
        return
    text, lost = files.read_with_losses(path, sample.dialect.encoding)
    yield from _encoding(path, text, lost)
    if sample.table is None or extension not in SEPARATORS:
        return
    separator = sample.dialect.separator_of(extension)
    yield from _separators(path, text, extension, separator)
    yield from _quotes(path, text, separator) if extension == ".tsv" else ()
    if sample.table.header:
        yield from _row_as_header(sample, path)
    elif path == sample.path:
        yield from _uneven_rows(sample, text, extension, separator)
        yield from _header_as_row(sample)


def _encoding(path, text, lost):
    if lost:
        count = sum(lost.values())
        yield DataFinding(
            "encoding",
            path,
            len(lost),
            f"{number_of(count, 'byte')} that {word_for(count, 'is', 'are')} not UTF-8, in "
            f"{number_of(len(lost), 'line')}: dropped; some words are damaged",
            "set `encoding` to that of the file, such as cp1252, or convert the file to UTF-8"
            if text.isascii()
            # Other non-ASCII letters are UTF-8: a conversion would turn é into Ã©.
            else f"correct {word_for(len(lost), 'this line', 'these lines')} by hand; do not convert the file, because "
            "other letters in it are valid UTF-8",
            first_lines(lost),
        )
    if damaged := _damaged_lines(text):
        count = text.count("\n") + (not text.endswith("\n"))  # the last line feed ends a line and begins none
        yield DataFinding(
            "damaged_letters",
            path,
            len(damaged),
            f"{format_share(len(damaged), count, 'lines', ('has', 'have'))} letters garbled by an earlier wrong "
            f"encoding, as in {next(iter(damaged.values()))!r}",
            "export the text again, using UTF-8 throughout",
            first_lines(damaged),
            len(damaged) >= findings.DAMAGED * count,
        )


def _damaged_lines(text):
    """Returns {line number: excerpt} of the lines with such letters; the expression alone would be slow."""
    if not any(mark in text for mark in _MARKS):
        return {}
    damaged = {}
    for number, line in enumerate(text.split("\n"), 1):
        if any(mark in line for mark in _MARKS) and (match := _DAMAGED.search(line)):
            damaged[number] = line[max(0, match.start() - 15) : match.end() + 15].strip()
    return damaged


def _separators(path, text, extension, separator):
    if other := _likely_separator(text, extension, separator):
        yield DataFinding(
            "separator",
            path,
            1,
            f"the columns seem to be separated by {separator_name(other)}, but "
            f"{separator_name(separator)} are expected",
            f"set {separator_option(other)}",
        )


def _quotes(path, text, separator):
    quoted = QuotedRows(separator)
    for number, line in enumerate(text.split("\n") if '"' in text else (), 1):
        if line.strip("\r"):
            quoted.add(number, line.removesuffix("\r"))
    if quoted.are_certain:
        yield DataFinding(
            "quoted_fields",
            path,
            len(quoted.lines),
            f"{format_share(len(quoted.lines), quoted.count, 'rows', ('has', 'have'))} fields in double quotes, as in "
            ".csv, which are read as part of the text",
            QuotedRows.REMEDY,
            first_lines(quoted.lines),
        )


def _uneven_rows(sample, text, extension, separator):
    """Yields the rows with more columns than most, in which a text may have been split."""
    name = separator_name(separator)
    widths = list(_widths(text, extension, separator))
    usual = collections.Counter(widths).most_common(1)[0][0]
    wide = [i for i, width in enumerate(widths) if width > usual]
    if wide and len(widths) == len(sample):
        yield DataFinding(
            "uneven_rows",
            sample.path,
            len(wide),
            f"{format_share(len(wide), len(widths), 'rows', ('has', 'have'))} more columns than the usual "
            f"{usual}: a text may be cut at one of its {name}",
            f"put fields that contain {name} in double quotes" if extension == ".csv" else f"remove stray {name}",
            sample.positions(wide),
        )


def _header_as_row(sample):
    texts, label, others = next(iter(sample.texts.values())), None, {}
    if sample.labels is not None:
        label = next(iter(sample.names(0)), None)
        others = collections.Counter(name for i in range(1, len(sample)) for name in sample.names(i))
    if label in others:
        return
    named = _is_name(texts[0]) or (label is not None and _is_name(label))
    if named or _stands_out(texts, label, others):
        shown = " and ".join(repr(cell[:40]) for cell in (texts[0], label) if cell is not None)
        yield DataFinding(
            "header_as_row",
            sample.path,
            1,
            f"the first row, {shown}, seems to be a header",
            "remove `header=false`",
            sample.positions([0]),
        )


def _stands_out(texts, label, others):
    """Returns whether the first row has two single words, above longer texts and labels that all recur."""
    if label is None or len(texts) < FEW_ROWS or len(label.split()) > 1 or len(texts[0].split()) > 1:
        return False
    words = sorted(len(text.split()) for text in texts[1:])
    return words[len(words) // 2] >= _LONG and min(others.values(), default=0) > 1


def _row_as_header(sample, path):
    """Yields a header that looks like an example: columns were given by index, and their names are data."""
    names, table = names_in(path, sample.dialect), sample.table
    numbers = [column for column in table.text_columns if str(column) not in names]
    text = next((names[Column(c).index()] for c in numbers if Column(c).index() is not None), "")
    label = None
    if table.label_column is not None and str(table.label_column) not in names and sample.targets is not None:
        label = names[Column(table.label_column).index()]
    if len(text.split()) >= _LONG or label is not None and _is_target(label, sample):
        shown = " and ".join(repr(cell[:40]) for cell in (text, label) if cell)
        yield DataFinding(
            "row_as_header",
            path,
            1,
            f"line 1, {shown}, seems to be an example, but is read as the header",
            "set `header=false`",
            first_lines([1]),
        )


def _is_target(cell, sample):
    if sample.labels is not None:
        return any(cell in sample.names(i) for i in range(len(sample)))
    return is_number(cell)


def _is_name(cell):
    return cell.strip().strip("#\"'").strip().casefold() in _NAMES
