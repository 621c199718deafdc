"""Splits a table into training, evaluation and test files; no text appears in two of them."""

import codecs
import collections
import contextlib
import dataclasses
import gzip
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from bert_tf.data.columns import LABEL, NAME, number, several
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of
from bert_tf.data.lint_sample import LintSample
from bert_tf.data.near_duplicates import find_leader
from bert_tf.data.table_reader import Column, read_rows
from bert_tf.data.tables import LabeledTexts, read_table, read_values
from bert_tf.utils import files

# === Groups ===
# Rows that must stay together: those with the same texts, or with the same value, such as a user's name.


def group_by_texts(sample: LintSample) -> np.ndarray:
    """Returns int64 [n]: for each of n examples, the index of the first one with the same texts.

    Texts are compared as in `example_checks.find_overlap`: case and outer spaces are ignored.
    """
    hashes, examples = sample.fingerprints  # ascending hashes; of equal ones, the earlier example comes first
    begins = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    first = np.empty(len(sample), np.int64)
    first[examples] = examples[begins][np.cumsum(begins) - 1]
    return first


def group_by_values(values: Sequence[Hashable]) -> np.ndarray:
    """Returns int64 [n]: for each of n values, the index of the first equal one."""
    first = {}
    return np.fromiter((first.setdefault(value, i) for i, value in enumerate(values)), np.int64, len(values))


def join_groups(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the merged groups of two groupings, each group numbered by its first row.

    If a and b are grouped in one, and b and c in the other, all three are in one group.

    Args:
        one, other: int64 [n], results of the functions above.
    """
    leader = one.tolist()  # each points to itself or to an earlier one
    for i, first in enumerate(other.tolist()):
        a, b = find_leader(leader, i), find_leader(leader, first)
        leader[max(a, b)] = min(a, b)
    return np.array([find_leader(leader, i) for i in range(len(leader))], np.int64)


# === Assignment ===
# Stratified assignment of rows to parts of given sizes: each label is as frequent as in the whole table.


_EXACT = 1e-9  # tolerance for integers
_ROUNDS = 100  # after which the sums of rows and columns are accurate enough for rounding


def assign_parts(units: np.ndarray, strata: np.ndarray, shares: Sequence[float], seed: int) -> np.ndarray:
    """Assigns each row to a part, and returns its index, int64 [n]; no part is empty.

    Units of several rows come first, in decreasing size: each is assigned so that the parts are nearest to their
    expected counts, per label and in total (least chi-square). Single rows then fill the remaining counts, by largest
    remainders. Ties between units of one size and rows of one label are broken at random, given the seed.

    Args:
        units: int [n], equal for rows that must stay together; at least as many distinct values as parts.
        strata: int [n], from 0: the label of each row.
        shares: fractions of the parts, which sum to 1.
        seed: seed of random choices.
    """
    rng, shares = np.random.default_rng(seed), np.asarray(shares)
    unit_of = np.unique(units, return_inverse=True)[1]
    sizes = np.bincount(unit_of)
    members = np.split(np.argsort(unit_of, kind="stable"), np.cumsum(sizes)[:-1])
    order = rng.permutation(len(sizes))
    large = order[sizes[order] > 1]
    large = large[np.argsort(-sizes[large], kind="stable")]
    expected = np.outer(np.bincount(strata), shares)
    part, held = _assign_large_units([strata[members[i]].tolist() for i in large], expected)
    parts = np.full(len(sizes), -1)
    parts[large] = part
    single = order[sizes[order] == 1]
    of_single = strata[[members[i][0] for i in single]] if len(single) else np.zeros(0, int)
    quotas = _quotas(expected, held, np.bincount(of_single, minlength=len(expected)), rng)
    by_label = single[np.argsort(of_single, kind="stable")]
    parts[by_label] = np.repeat(np.tile(np.arange(len(shares)), len(expected)), quotas.ravel())
    _fill_empty(parts, sizes, order, len(shares))
    return parts[unit_of]


def _assign_large_units(units, expected):
    """Returns the part of each unit (given as its rows' labels), and the resulting counts, float [labels, parts]."""
    labels, parts = expected.shape
    held, aims = np.zeros([labels + 1, parts]).tolist(), np.vstack([expected, expected.sum(0)]).tolist()
    chosen = []
    for rows in units:
        counts = [*collections.Counter(rows).items(), (labels, len(rows))]  # the last position counts all labels
        # The increase of (held - aim)^2 / aim if these are added.
        rises = [[n * (n + 2 * (held[k][p] - aims[k][p])) / aims[k][p] for k, n in counts] for p in range(parts)]
        costs = list(map(sum, rises))
        chosen.append(costs.index(min(costs)))
        for k, n in counts:
            held[k][chosen[-1]] += n
    return chosen, np.array(held[:-1])


def _quotas(expected, held, rows, rng):
    """Returns the number of single rows per label and part, int [labels, parts]; `rows` are the numbers available."""
    if not rows.sum():
        return np.zeros(expected.shape, int)
    missing = np.maximum(expected - held, 0)
    missing[missing.sum(1) == 0] = expected[missing.sum(1) == 0]
    wanted = np.maximum(largest_remainders(expected.sum(0)) - held.sum(0), 0)
    columns = largest_remainders(wanted * rows.sum() / wanted.sum())
    return _round_table(_rake(missing, rows, columns), rows, columns, rng)


def largest_remainders(values: np.ndarray) -> np.ndarray:
    """Rounds values with an integer sum, keeping the sum (largest remainders; the first of equal ones up)."""
    whole = np.floor(values + _EXACT).astype(int)
    up = np.argsort(-np.round(values - whole, 9), kind="stable")[: round(values.sum()) - whole.sum()]
    whole[up] += 1
    return whole


def _rake(table, rows, columns):
    """Scales the rows and columns of a table until both have approximately these sums (raking)."""
    for _ in range(_ROUNDS):
        table = table * (columns / np.maximum(table.sum(0), _EXACT))
        table = table * (rows / np.maximum(table.sum(1), _EXACT))[:, None]
    return table


def _round_table(table, rows, columns, rng):
    """Rounds a table to integers with these sums: the largest remainders are rounded up where the sums allow."""
    whole = np.floor(table + _EXACT).astype(int)
    remainders = np.round(table - whole, 9).ravel()
    order = np.lexsort((rng.random(remainders.size), -remainders)).tolist()
    of_rows, of_columns = rows - whole.sum(1), columns - whole.sum(0)
    for most in (1, int(rows.max())):  # the remainder after one row per place is put where there is room
        for row, column in (divmod(index, table.shape[1]) for index in order):
            more = max(0, min(most, of_rows[row], of_columns[column]))
            whole[row, column] += more
            of_rows[row] -= more
            of_columns[column] -= more
    return whole


def _fill_empty(parts, sizes, order, count):
    """Moves to each empty part the smallest unit of the part with the most units."""
    for empty in set(range(count)) - set(parts.tolist()):
        richest = np.bincount(parts, minlength=count).argmax()
        those = order[parts[order] == richest]
        parts[those[sizes[those].argmin()]] = empty


# === Writing ===
# Writes the rows of a table to several files of the same format, byte for byte.


_BLANK = b" \t\r\n"


def write_split_files(path: str, begins: Sequence[int], parts: np.ndarray, outputs: Sequence[str]):
    """Writes each row of a table to the file of its part, in the table's order; writes all files or none.

    Rows keep their bytes: quotes, line breaks in fields, and bytes that are not UTF-8. The header and a byte-order mark
    are repeated. A line end is added to the last row if missing. For Parquet, the values and the schema are kept.

    Args:
        path: the table; if it is a .gz file, the outputs are compressed as well.
        begins: the 1-based line on which each row begins.
        parts: int [n], the index in `outputs` of each row's file.
        outputs: paths that do not exist.

    Raises:
        OSError: a file cannot be written.
    """
    is_packed = path.lower().endswith(".gz")
    with _new_files(outputs) as opened:
        if extension_of(path) == ".parquet":
            _write_parquet(path, parts, opened)
            return
        with contextlib.ExitStack() as stack:
            if is_packed:  # without name and time, so that the same rows give the same bytes
                packed = (gzip.GzipFile("", "wb", fileobj=file, mtime=0) for file in opened)
                opened = [stack.enter_context(file) for file in packed]
            _write_rows(_read_blocks(path, begins), parts, opened)


@contextlib.contextmanager
def _new_files(paths):
    """Opens files that appear when the block succeeds; if one fails, all are removed."""
    folder = os.path.dirname(paths[0])
    is_new = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(files.atomic_open(path, "wb")) for path in paths]
    except BaseException:
        for path in filter(os.path.exists, paths):  # none of them existed before
            os.remove(path)
        if is_new:
            os.rmdir(folder)
        raise


def _write_rows(blocks: Iterator[bytes], parts, opened):
    head, first = next(blocks), next(blocks)
    if first.startswith(codecs.BOM_UTF8):  # there is no header with it
        head, first = codecs.BOM_UTF8, first.removeprefix(codecs.BOM_UTF8)
    end = b"\r\n" if (head or first).endswith(b"\r\n") else b"\n"
    for file in opened:
        file.write(head)
    _write_row(opened[parts[0]], first, end)
    for part, row in zip(parts[1:], blocks, strict=True):
        _write_row(opened[part], row, end)


def _write_row(file, row, end):
    file.write(row if row.endswith(b"\n") else row + end)


def _read_blocks(path, begins) -> Iterator[bytes]:
    """Yields the lines before the first row, then those of each row, without blank lines at the end."""
    block, rest = [], iter(begins)
    begin = next(rest)
    for line_number, line in enumerate(files.read_byte_lines(path), 1):
        if line_number == begin:
            yield b"".join(block)
            block, begin = [], next(rest, None)
        block.append(line)
    while len(block) > 1 and not block[-1].strip(_BLANK):
        block.pop()
    yield b"".join(block)


def _write_parquet(path, parts, opened):
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        table = file.read()
    for part, output in enumerate(opened):
        parquet.write_table(table.take(np.flatnonzero(parts == part)), output)


# === Split ===
# Splits a table of examples into training, evaluation and test files that share no text.


_PARTS = ("train", "eval", "test")
# The problem -> the type of the label column, given the separator of several labels.
_KINDS = {
    "single_label": lambda _: LABEL,
    "multi_label": several,
    "regression": lambda _: number(),
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to read, and their types; see `tables.read_table`.

    Attributes:
        text: one or two text columns.
        label: the label column. If None or "", there are no labels.
        group: column whose equal values keep rows together, or None.
        header: whether line 1 of .tsv and .csv names the columns.
        problem: the kind of labels, one of `names.PROBLEMS`.
        separator: separator of several labels.
        dialect: how a text table is written.
        label_columns: columns of 0 and 1, in place of `label`, as in `tables.read_table`.
    """

    text: Sequence[str | int] = ("text",)
    label: str | int | None = "label"
    group: str | int | None = None
    header: bool = True
    problem: str = "single_label"
    separator: str = ","
    dialect: Dialect = DEFAULT_DIALECT
    label_columns: Sequence[str] = ()


def group_sizes(groups: np.ndarray) -> list[int]:
    """Returns the number of rows of each group; `groups` is int [n], equal for rows of one group."""
    return np.unique(groups, return_counts=True)[1].tolist()


@dataclasses.dataclass(frozen=True)
class SplitResult:
    """The parts of n rows, and the groups that had to stay together.

    Attributes:
        paths: part -> its file.
        shares: part -> its requested fraction of the rows.
        parts: int [n], the index in `paths` of each row's part.
        texts: int [n], equal for rows with the same texts.
        units: int [n], equal for rows that had to stay together.
        labels: the names of each row's labels, or None if there are no labels.
    """

    paths: Mapping[str, str]
    shares: Mapping[str, float]
    parts: np.ndarray
    texts: np.ndarray
    units: np.ndarray
    labels: Sequence[Sequence[str]] | None

    def sizes(self) -> list[int]:
        """Returns the number of rows of each part."""
        return np.bincount(self.parts, minlength=len(self.paths)).tolist()

    def counts(self) -> list[collections.Counter]:
        """Returns the number of rows per label of each part; empty without labels."""
        counts = [collections.Counter() for _ in self.paths]
        for part, names in zip(self.parts.tolist(), self.labels or (), strict=False):
            counts[part].update(names)
        return counts


def check_copyable(path: str, encoding: str | None = None):
    """Raises ValueError for a table whose rows cannot be copied byte for byte: several files, or another line feed."""
    if not files.is_utf8(encoding) and "\n".encode(encoding) != b"\n":
        raise ValueError(
            f"A file with `encoding={encoding}` cannot be split, because rows are copied up to a line feed byte. "
            f"Convert the file first: iconv -f {encoding} -t UTF-8."
        )
    if len(files.find_files(path)) > 1:
        raise ValueError(
            f"{path} must be one file, because rows are copied byte for byte. Split each file, or join them first."
        )


def split_table(
    path: str, folder: str, eval_share: float, test_share: float = 0.0, columns: Columns | None = None, seed: int = 0
) -> SplitResult:
    """Splits a table and writes train, eval and, for a `test_share`, test next to each other, in the table's format.

    Rows with the same texts, or of one group, end up in the same file. The same seed gives the same files.

    Args:
        path: a .tsv, .csv, .jsonl (each also with .gz) or .parquet file.
        folder: output directory.
        eval_share, test_share: shares of the rows.
        columns: how the table is read.
        seed: random seed of the split.

    Raises:
            ValueError: no rows would be left for training, the table is not as described, there are fewer groups than
                parts, or an output file already exists.
    """
    columns, shares = columns or Columns(), _shares(eval_share, test_share)
    check_copyable(path, columns.dialect.encoding)
    paths = _paths(path, folder)
    examples, same, together = _read_groups(path, columns, len(shares))
    labels = _labels(examples)
    parts = assign_parts(together, _strata(labels, len(examples)), list(shares.values()), seed)
    paths = {part: paths[part] for part in shares}
    write_split_files(path, examples.lines, parts, list(paths.values()))
    return SplitResult(paths, shares, parts, same, together, labels)


def split_folds(
    path: str, folder: str, folds: int, columns: Columns | None = None, seed: int = 0
) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Writes the folds of a table for cross-validation, in the table's format; files that exist are kept.

    Rows with the same texts, or of one group, are in the same fold, and the folds have similar label counts. The same
    seed gives the same folds.

    Args:
        path, columns, seed: as for `split_table`.
        folder: output directory; fold k, from 1, is in its directory k.
        folds: number of folds, at least 2.

    Returns:
        For each fold the file of all other rows, to train on, and that of its own rows; and int [n], the fold of each
        row, from 0.

    Raises:
        ValueError: the table is not as described, or there are fewer groups than folds.
    """
    columns = columns or Columns()
    check_copyable(path, columns.dialect.encoding)
    examples, _, together = _read_groups(path, columns, folds)
    fold_of = assign_parts(together, _strata(_labels(examples), len(examples)), [1 / folds] * folds, seed)
    paths = [tuple(os.path.join(folder, str(k + 1), part + _ending(path)) for part in _PARTS[:2]) for k in range(folds)]
    for fold, own in enumerate(paths):
        if not all(map(os.path.exists, own)):
            write_split_files(path, examples.lines, (fold_of == fold).astype(int), own)
    return paths, fold_of


def _read_groups(path, columns, parts):
    """Returns the examples, and the groups of those with the same texts and of those that stay together."""
    examples = _read(path, columns)
    texts = {"text_a": examples.text_a, **({"text_b": examples.text_b} if examples.text_b else {})}
    same = group_by_texts(LintSample(path, examples.where, texts))
    together = join_groups(same, group_by_values(_groups(path, columns))) if columns.group else same
    if (count := len(np.unique(together))) < parts:
        raise ValueError(
            f"{path} has too few groups of rows to split: {parts} are needed, one for each file. Received "
            f"{len(examples)} rows in {count}, grouped by text{' and `group_column`' if columns.group else ''}; add "
            "rows, or split into fewer files."
        )
    return examples, same, together


def _strata(labels, count):
    values = group_by_values([frozenset(names) for names in labels]) if labels else np.zeros(count, int)
    return np.unique(values, return_inverse=True)[1]


def _ending(path):
    return extension_of(path) + (".gz" if path.lower().endswith(".gz") else "")


def _shares(eval_share, test_share):
    if not (0 < eval_share < 1 and 0 <= test_share < 1 and eval_share + test_share < 1):
        raise ValueError(
            "`eval_share` must be above 0, `test_share` 0 or more, and their sum below 1, so that rows are left for "
            f"training. Received: {eval_share:g} and {test_share:g}; use shares such as 0.1."
        )
    shares = {"train": 1 - eval_share - test_share, "eval": eval_share, "test": test_share}
    return {part: share for part, share in shares.items() if share}


def _paths(path, folder):
    """Returns part -> its file for all parts; checks for files of another split, which could be mistaken for these."""
    paths = {part: os.path.join(folder, part + _ending(path)) for part in _PARTS}
    if there := [each for each in paths.values() if os.path.lexists(each)]:
        raise ValueError(
            f"`output_dir` must not contain {', '.join(map(os.path.basename, paths.values()))} yet. Received "
            f"{folder}, which contains {os.path.basename(there[0])}; remove it, or choose another directory."
        )
    return paths


def _read(path, columns) -> LabeledTexts:
    return read_table(
        path,
        header=columns.header,
        text_columns=columns.text,
        label_column=None if columns.label_columns else columns.label or None,
        label=_KINDS[columns.problem](columns.separator),
        dialect=columns.dialect,
        label_columns=columns.label_columns,
    )


def _groups(path, columns):
    column = Column(columns.group, "group_column")
    rows = read_rows(path, [column], columns.header, dialect=columns.dialect)
    return [read_values(path, line, [(column, NAME)], values)[0] for line, values in rows]


def _labels(examples):
    if examples.labels is None or isinstance(examples.labels[0], float):
        return None
    return [(label,) if isinstance(label, str) else label for label in examples.labels]
