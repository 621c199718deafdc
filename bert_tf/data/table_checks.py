"""Checks of tables: labels, columns and raw cells that are probably mistakes."""

import collections
import csv
import dataclasses
import io
import itertools
import re
import unicodedata
from collections.abc import Iterator

from bert_tf.data import columns, lint_sample
from bert_tf.data.dialect import SEPARATOR_NAMES, SEPARATORS, QuotedRows, extension_of, separator_name, separator_option
from bert_tf.data.lint_sample import DataFinding, LintSample, first_lines, format_share
from bert_tf.data.list_cells import find_separator
from bert_tf.data.table_reader import Column, excerpt, names_in
from bert_tf.utils import files
from bert_tf.utils.names import number_of, word_for

# === Labels ===
# Labels that are probably a mistake: two spellings of one, a distinct one in each row, very rare ones.


UNKNOWN = "unknown_labels"  # a file with these cannot be encoded
_RARE = 2  # maximum number of examples of a rare label
_FEW_ROWS = 10  # with fewer rows, the number of labels is not checked
_SHOWN = 6  # number of labels shown
_SCORE = columns.number()
_TRUTH = {"true": "1", "yes": "1", "1": "1", "false": "0", "no": "0", "0": "0"}


def check_training_labels(sample: LintSample) -> Iterator[DataFinding]:
    """Yields the problems with the labels of a training file."""
    counts = count_labels(sample)
    yield from _spellings(sample, counts)
    yield from _several_in_one(sample, counts)
    if sample.labels is not None and len(counts) < 2:
        yield from _too_few(sample, counts)
    elif len(counts) > len(sample) / 2 and len(sample) >= _FEW_ROWS:
        yield _too_many(sample, counts)
    else:
        yield from _rare(sample, counts)


def check_evaluation_labels(sample: LintSample, train: LintSample) -> Iterator[DataFinding]:
    """Yields the labels that only one of an evaluation file and the training file has."""
    known, own = count_labels(train), count_labels(sample)
    if unknown := {name: count for name, count in own.items() if name not in known}:
        yield _unknown_labels(sample, train, known, unknown)
    if own and (untested := {name: count for name, count in known.items() if name not in own}):
        them = word_for(len(untested), "it", "them")
        yield DataFinding(
            "untested_labels",
            sample.path,
            len(untested),
            f"no examples of {len(untested)} of the {number_of(len(known), sample.label)} in {train.path}, so "
            f"{word_for(len(untested), 'its', 'their')} quality is not measured: {_list_counts(untested)} in training",
            f"add examples of {them}, or split the data with `bert-tf split`, which preserves label proportions",
        )


def _unknown_labels(sample, train, known, unknown):
    near = {_plain(name): name for name in known}
    alike = [f"{name!r} is {near[_plain(name)]!r} in training" for name in sorted(unknown) if _plain(name) in near]
    them = word_for(len(unknown), "it", "them")
    return DataFinding(
        UNKNOWN,
        sample.path,
        len(unknown),
        f"{number_of(len(unknown), sample.label)} that {train.path} lacks: {_list_counts(unknown)}"
        + (f"; ignoring spaces and letter case, {', '.join(alike[:_SHOWN])}" if alike else ""),
        f"correct {them}, or add training examples of {them}",
        _positions_of(sample, unknown),
    )


def count_labels(sample: LintSample) -> dict[str, int]:
    """Returns the number of examples per label; {} if labels are not names."""
    labels = sample.labels or ()
    if len(labels) and not isinstance(labels[0], str):
        labels = (name for names in labels for name in names)
    return dict(collections.Counter(labels))


def is_number(name: str) -> bool:
    """Returns whether a cell holds a number as a column of scores may: 3, -0.5 or 1e-5, but not nan, inf or 1_000."""
    return _SCORE.read(name) is not None


def _spellings(sample, counts):
    groups, plain = collections.defaultdict(list), {name: _plain(name) for name in counts}
    is_mixed = len(set(plain.values())) > 2 and all(each in _TRUTH for each in plain.values())  # True, 1 and yes
    if is_mixed:
        plain = {name: _TRUTH[each] for name, each in plain.items()}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups[plain[name]].append(name)
    several = [names for names in groups.values() if len(names) > 1]
    if not several:
        return
    rarer = {name for names in several for name in names[1:]}
    alike = ", ".join(" and ".join(f"{name!r} {counts[name]}" for name in names) for names in several[:_SHOWN])
    yield DataFinding(
        "label_spellings",
        sample.path,
        len(rarer),
        f"{len(counts)} {sample.label}s, but only {len(groups)} if spaces and letter case are ignored"
        f"{' and 1.0 is 1' if any(map(is_number, rarer)) else ''}"
        f"{', and true and yes are 1' if is_mixed else ''}: {alike}"
        + (", ..." if len(several) > _SHOWN else ""),
        "give each one spelling",
        _positions_of(sample, rarer),
    )


def _several_in_one(sample, counts):
    """Yields labels that seem to be several names in one cell."""
    if sample.labels is None or not isinstance(next(iter(sample.labels), None), str):
        return
    if separator := find_separator(counts):
        composite = {name: count for name, count in counts.items() if separator in name}
        yield DataFinding(
            "several_labels",
            sample.path,
            len(composite),
            f"{len(composite)} of {len(counts)} {sample.label}s seem to be several names separated by {separator!r}: "
            f"{_list_counts(composite)}",
            f"set `problem_type=multi_label` and `label_separator={separator}`, or ignore this if each is one name",
            _positions_of(sample, composite),
        )


def _too_few(sample, counts):
    """Yields labels that cannot be learned: none at all, or the same one for every example."""
    if not counts:
        what, remedy = f"no {sample.label} in {number_of(len(sample), 'example')}", "add examples that have one"
        yield DataFinding("no_labels", sample.path, len(sample), f"{what}, so nothing can be learned",
                      f"check where the {sample.label}s are, or {remedy}")  # fmt: skip
    elif isinstance(sample.labels[0], str):
        yield DataFinding(
            "one_label",
            sample.path,
            len(sample),
            f"{sample.label} {excerpt(next(iter(counts)), 40)} in all {len(sample):,} examples; training will not "
            "start with a single label",
            "check `label_column`, or add examples with another label",
        )


def _too_many(sample, counts):
    numbers = all(map(is_number, counts))
    remedy = ", or set `problem_type=regression` if they are scores" if numbers else ""
    return DataFinding(
        "many_labels",
        sample.path,
        len(counts),
        f"{len(counts):,} {sample.label}s in {len(sample):,} examples, more than one per two examples: "
        f"{_list_counts(counts)}",
        f"check `label_column`{remedy}",
    )


def _rare(sample, counts):
    together = collections.Counter()
    for name, count in counts.items():
        together[_plain(name)] += count
    rare = {name: count for name, count in counts.items() if together[_plain(name)] <= _RARE}
    if rare:
        yield DataFinding(
            "rare_labels",
            sample.path,
            len(rare),
            f"{len(rare)} of {len(counts)} {sample.label}s with {_RARE} examples or fewer: {_list_counts(rare)}",
            "add examples or merge such labels, because so few examples teach the model nothing",
            _positions_of(sample, rare),
        )


def _positions_of(sample, names):
    return sample.positions(i for i in range(len(sample)) if any(name in names for name in sample.names(i)))


def _list_counts(counts):
    chosen = sorted(counts, key=lambda name: (counts[name], name))
    shown = ", ".join(f"{name[:40]!r} {counts[name]}" for name in chosen[:_SHOWN])
    return shown + (", ..." if len(chosen) > _SHOWN else "")


def _plain(name):
    plain = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    # The zeros at the end of 1.5e10 are those of its exponent.
    return plain.rstrip("0").rstrip(".") if "." in plain and "e" not in plain and is_number(plain) else plain


# === Separators ===
# The separator of a text table, guessed from the uniformity of its rows.


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
    """Returns the share of rows with the most common number of columns, which must be at least two."""
    counts = collections.Counter(itertools.islice(_widths(text, extension, separator), _LOOKED_AT))
    width, rows = max(counts.items(), key=lambda item: item[1], default=(1, 0))
    return rows / counts.total() if width > 1 else 0.0


# === Raw file ===
# Checks of a file's encoding, separators and rows.


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


def check_raw_file(sample: LintSample) -> Iterator[DataFinding]:
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
            f"{number_of(len(lost), 'line')}: dropped, so words lose letters",
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
            len(damaged) >= lint_sample.DAMAGED * count,
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
    if label is None or len(texts) < _FEW_ROWS or len(label.split()) > 1 or len(texts[0].split()) > 1:
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
