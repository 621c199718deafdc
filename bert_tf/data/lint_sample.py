"""Examples as checks read them, and findings with their thresholds."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.utils.names import word_for
from bert_tf.utils.token_counts import LARGE_SHARE

# === Findings ===
# Findings of the data checks, and their thresholds.


_SHOWN = 5  # positions shown in a line of text
_KEPT = 1000  # positions of a finding

# From this share on a finding is a warning, below it a note: real data sets have a few of each. GLUE's, SQuAD and
# CoNLL-2003 stay below all of them but where they cannot.
DUPLICATES = 0.05  # of a file's examples
CONTRADICTIONS = 0.01  # of a file's examples
OVERLAP = 0.02  # of the evaluation file's examples
EMPTY = 0.001  # of a file's examples
LISTS = 0.5  # of a file's examples: fewer are no finding
DAMAGED = 0.005  # of a file's lines
CUT = LARGE_SHARE  # of a file's examples: at 128 tokens, GLUE's recipe, only RTE is above it, with 0.13


@dataclasses.dataclass(frozen=True)
class DataFinding:
    """A probable mistake in a data file.

    Attributes:
        kind: a stable name, such as "duplicates"; docs/guides/prepare_data.md lists them.
        path: the file.
        count: number of examples, labels or lines affected.
        what: the finding, without the file name.
        remedy: the suggested fix.
        places: positions of the first ones, such as "line 3"; the key of bert-tf check_data --json.
        is_warning: whether it is a warning; if False, it is a note, because too few are affected to do harm.
    """

    kind: str
    path: str
    count: int
    what: str
    remedy: str
    places: tuple[str, ...] = ()
    is_warning: bool = True

    def __str__(self):
        return f"{self.path}: {self.text}"

    @property
    def text(self) -> str:
        """The finding, its positions and the suggested fix, without the file name."""
        return self.text_with()

    def text_with(self, source: str | None = None) -> str:
        """Returns `text`; if not all positions fit, it names `source` as the place that lists them."""
        shown = ", ".join(self.places[:_SHOWN])
        if len(self.places) > _SHOWN:
            kept = "all" if len(self.places) < _KEPT else f"the first {_KEPT:,}"
            shown += ", ..." + (f"; {kept}: {source}" if source else "")
        return f"{self.what}{f' ({shown})' if shown else ''}; {self.remedy}."


def format_positions(path: str, positions: Iterable[str]) -> tuple[str, ...]:
    """Returns the first 1,000 of these positions, "file:3" or "file: row 3", without the name of the file `path`."""
    rests = [position.removeprefix(path) for position in itertools.islice(positions, _KEPT)]
    return tuple(f"line {rest[1:]}" if rest[1:].isdigit() else rest.removeprefix(": ") for rest in rests)


def first_lines(numbers: Iterable[int]) -> tuple[str, ...]:
    """Returns the first 1,000 of these lines, formatted as positions."""
    return tuple(f"line {number}" for _, number in zip(range(_KEPT), numbers, strict=False))


def format_share(count: int, of: int, what: str, verb: tuple[str, str] | None = None) -> str:
    """Returns "34 of 2,490 examples (1.4 %)", followed by the verb in the singular or plural."""
    percent = 100 * count / max(1, of)
    number = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"{count:,} of {of:,} {what} ({number} %)" + (f" {word_for(count, *verb)}" if verb else "")


# === Samples ===
# A file of examples as the checks see it, whatever the task: texts, targets, label names.


_ODD = np.int64(6364136223846793005)  # mixes the hashes of two texts, so that it matters which is the first
EMPTY_TEXT_HASH = hash("")


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The settings a table was read with; see `tables.read_table`."""

    header: bool
    text_columns: Sequence[str | int]
    label_column: str | int | None


@dataclasses.dataclass(frozen=True)
class LintSample:
    """The n examples of one file.

    Attributes:
        path: the file, or several as `files.find_files` takes them.
        where: index -> "file:line", as errors begin with it.
        texts: name -> n texts.
        targets: the values that examples with the same texts should share. If None, the examples have no targets.
        labels: the label name of each example, or the names of all its labels. If None, labels are not names.
        label: the word for a label in messages: "label".
        target: the word for a target in messages.
        table: the settings the file was read with. If None, the format leaves no choice.
        optional: names of the texts that an example may lack.
        bad_labels: line -> label of each row that was skipped because its label is empty or unreadable.
        bad_texts: line -> the value in place of a text, such as None, of each row that was skipped for that.
        fewest_words: examples whose texts have fewer words often repeat, and are not compared.
        dialect: how a text file is written.
        findings: what the task itself found in the file.
    """

    path: str
    where: Callable[[int], str]
    texts: Mapping[str, Sequence[str]]
    targets: Sequence[Hashable] | None = None
    labels: Sequence[str] | Sequence[Sequence[str]] | None = None
    label: str = "label"
    target: str = "label"
    table: TableLayout | None = None
    optional: Collection[str] = ()
    bad_labels: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    bad_texts: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    fewest_words: int = 0
    dialect: Dialect = DEFAULT_DIALECT
    findings: Sequence[DataFinding] = ()

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def positions(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Returns the positions of the first 1,000 of these examples."""
        return format_positions(self.path, (self.where(int(i)) for i in indices))

    def finding(
        self, kind: str, indices: Collection[int], what: str, remedy: str, warn_from: float = 0.0
    ) -> DataFinding:
        """Returns a finding about some examples: a warning from this share of all on, otherwise a note."""
        is_warning = len(indices) >= warn_from * len(self)
        return DataFinding(kind, self.path, len(indices), what, remedy, self.positions(indices), is_warning)

    @property
    def has_several_labels(self) -> bool:
        """Whether an example may have any number of labels."""
        return bool(self.labels) and not isinstance(self.labels[0], str)

    def names(self, index: int) -> Sequence[str]:
        """Returns the names of an example's labels."""
        labels = self.labels[index]
        return (labels,) if isinstance(labels, str) else labels

    @functools.cached_property
    def hashes(self) -> Mapping[str, np.ndarray]:
        """Name of a text -> int64 [n], equal for texts that differ only in case and outer spaces.

        Python's own hash of 64 bits, the same in one process: among ten million texts two that differ share one with a
        chance of 3 in a million.
        """
        n = len(self)
        return {name: np.fromiter(map(hash, map(_plain, texts)), np.int64, n) for name, texts in self.texts.items()}

    @functools.cached_property
    def fingerprints(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes, int64 [k], ascending and equal for examples with equal texts; and their example indices, int64 [k].

        k is n, or the number of examples that are compared. Among equal texts, the earlier example comes first.
        """
        combined = functools.reduce(lambda one, other: one * _ODD + other, self.hashes.values())
        order = np.argsort(combined, kind="stable")
        if self.fewest_words:
            n, columns = len(self), self.texts.values()
            words = sum(np.fromiter((text.count(" ") + 1 for text in texts), np.int64, n) for texts in columns)
            order = order[words[order] >= self.fewest_words]
        return combined[order], order


def _plain(text):
    return text.lower().replace("  ", " ").strip()  # and no more: this is most of the cost of all checks
