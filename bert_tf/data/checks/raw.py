"""The file as it lies there: its encoding, what separates its columns, and which of its lines are rows."""

import collections
import os
import re
import shlex
from collections.abc import Iterator

from bert_tf.data import separators
from bert_tf.data.checks import findings
from bert_tf.data.checks.findings import Finding, lines, share
from bert_tf.data.checks.labels import is_number
from bert_tf.data.checks.samples import Sample
from bert_tf.data.column_names import names_in
from bert_tf.data.rows import Column, extension_of
from bert_tf.utils import files
from bert_tf.utils.counts import number_of, word_for

# UTF-8 that was read as Windows-1252 and written as UTF-8 again: an é has become Ã©, a ’ has become â€™.
_DAMAGED = re.compile("[ÃÂ][\u0080-\u00bf]|â€[\u0080-\u00bf™œ˜“”¦]|\ufffd")
_MARKS = ("Ã", "Â", "â€", "\ufffd")
# What columns are called, beside what those of a task are.
_NAMES = {
    "text", "texts", "sentence", "sentence1", "sentence2", "question", "question1", "question2", "review", "comment",
    "content", "body", "message", "tweet", "title", "description", "document", "utterance", "query", "premise",
    "hypothesis", "input", "text_a", "text_b", "label", "labels", "class", "category", "target", "sentiment",
    "gold_label", "score", "rating", "intent", "topic", "tag", "y", "quality",
}  # fmt: skip
_LONG = 4  # words: no name of a column has so many
_FEW_ROWS = 10


def as_it_lies(sample: Sample) -> Iterator[Finding]:
    """Yields what shows that a file was not written as it is read."""
    extension = extension_of(sample.path)
    if extension == ".parquet":
        return
    text, lost = files.read_with_losses(sample.path)
    yield from _encoding(sample.path, text, lost)
    if sample.table is None or extension not in separators.OF_EXTENSION:
        return
    yield from _separators(sample, text, extension)
    if sample.table.header:
        yield from _row_as_header(sample)
    else:
        yield from _uneven_rows(sample, text, extension)
        yield from _header_as_row(sample)


def _encoding(path, text, lost):
    if lost:
        count = sum(lost.values())
        yield Finding(
            "encoding",
            path,
            len(lost),
            f"{number_of(count, 'byte')} that {word_for(count, 'is', 'are')} not UTF-8, in "
            f"{number_of(len(lost), 'line')}: left out, so that words lose letters",
            _conversion(path) if text.isascii() else _correction(len(lost)),
            lines(lost),
        )
    if damaged := _damaged_lines(text):
        count = text.count("\n") + (not text.endswith("\n"))  # the last line feed ends a line and begins none
        yield Finding(
            "damaged_letters",
            path,
            len(damaged),
            f"{share(len(damaged), count, 'lines', ('has', 'have'))} letters that a wrong encoding has damaged before, "
            f"as in {next(iter(damaged.values()))!r}",
            "export the text again, as UTF-8 throughout",
            lines(damaged),
            len(damaged) >= findings.DAMAGED * count,
        )


def _conversion(path):
    """Returns how to convert a file of which no letter beyond ASCII is UTF-8."""
    stem, extension = os.path.splitext(path.removesuffix(".gz"))
    packed = path != stem + extension
    read, source = (f"gzip -dc {shlex.quote(path)} | ", "") if packed else ("", f" {shlex.quote(path)}")
    to = shlex.quote(f"{stem}-utf8{extension}")
    return f"convert the file: {read}iconv -f WINDOWS-1252 -t UTF-8{source} > {to} (or -f what it was written in)"


def _correction(count):
    """Returns what to do where other letters beyond ASCII are UTF-8: of each é a conversion would make an Ã©."""
    which = word_for(count, "this line", "these lines")
    return f"correct {which} by hand, and do not convert the file, of which other letters are UTF-8 already"


def _damaged_lines(text):
    """Returns {number: a part} of the lines with such letters; the expression alone would be slow."""
    if not any(mark in text for mark in _MARKS):
        return {}
    damaged = {}
    for number, line in enumerate(text.split("\n"), 1):
        if any(mark in line for mark in _MARKS) and (match := _DAMAGED.search(line)):
            damaged[number] = line[max(0, match.start() - 15) : match.end() + 15].strip()
    return damaged


def _separators(sample, text, extension):
    if other := separators.likely_separator(text, extension):
        own = separators.NAMES[separators.OF_EXTENSION[extension]]
        yield Finding(
            "separator",
            sample.path,
            1,
            f"the columns seem to be separated by {separators.NAMES[other]}, and {own} are expected",
            "write the file with commas and name it .csv, or with tabs and name it .tsv",
        )


def _uneven_rows(sample, text, extension):
    """Yields the rows that have more columns than most, where a text may have been cut in two."""
    widths = list(separators.widths(text, extension))
    usual = collections.Counter(widths).most_common(1)[0][0]
    wide = [i for i, width in enumerate(widths) if width > usual]
    if wide and len(widths) == len(sample):
        is_csv = separators.OF_EXTENSION[extension] == ","
        yield Finding(
            "uneven_rows",
            sample.path,
            len(wide),
            f"{share(len(wide), len(widths), 'rows', ('has', 'have'))} more columns than most, which have {usual}: a "
            f"text may end at its first {'comma' if is_csv else 'tab'}",
            "put fields that hold commas into double quotes" if is_csv else "take the stray tabs out",
            sample.places(wide),
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
        yield Finding(
            "header_as_row",
            sample.path,
            1,
            f"the first row, {shown}, seems to name the columns",
            "take `header=false` out",
            sample.places([0]),
        )


def _stands_out(texts, label, others):
    """Whether the first row is of two single words, over texts of several words and labels that all occur again."""
    if label is None or len(texts) < _FEW_ROWS or len(label.split()) > 1 or len(texts[0].split()) > 1:
        return False
    words = sorted(len(text.split()) for text in texts[1:])
    return words[len(words) // 2] >= _LONG and min(others.values(), default=0) > 1


def _row_as_header(sample):
    """Yields the header that is an example: columns were given by number, and what they are called is data."""
    names, table = names_in(sample.path), sample.table
    numbers = [column for column in table.text_columns if str(column) not in names]
    text = next((names[Column(c).index()] for c in numbers if Column(c).index() is not None), "")
    label = None
    if table.label_column is not None and str(table.label_column) not in names and sample.targets is not None:
        label = names[Column(table.label_column).index()]
    if len(text.split()) >= _LONG or label is not None and _is_target(label, sample):
        shown = " and ".join(repr(cell[:40]) for cell in (text, label) if cell)
        yield Finding(
            "row_as_header",
            sample.path,
            1,
            f"line 1, {shown}, seems to be an example, and is read as the names of the columns",
            "say `header=false`",
            lines([1]),
        )


def _is_target(cell, sample):
    if sample.labels is not None:
        return any(cell in sample.names(i) for i in range(len(sample)))
    return is_number(cell)


def _is_name(cell):
    return cell.strip().strip("#\"'").strip().casefold() in _NAMES
