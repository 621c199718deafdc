"""Examples as checks read them, and findings with their thresholds."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.utils.names import word_for

# === Findings ===
# Findings of the data checks, and their thresholds.


_SHOWN = 5  # positions in a line of text
_KEPT = 1000  # positions of a finding

# From this share on a finding is a warning, below it a note: real data sets have a few of each. GLUE's, SQuAD and
# CoNLL-2003 stay below all of them but where they cannot.
DUPLICATES = 0.05  # of a file's examples
CONTRADICTIONS = 0.01  # of a file's examples
OVERLAP = 0.02  # of the evaluation file's examples
EMPTY = 0.001  # of a file's examples
DAMAGED = 0.005  # of a file's lines
CUT = 0.2  # of a file's examples: at 128 tokens, GLUE's recipe, RTE has 0.13


@dataclasses.dataclass(frozen=True)
class DataFinding:
    """Something in a file of examples that is probably a mistake.

    Attributes:
        kind: a name that stays, such as "duplicates"; docs/guides/prepare_data.md lists them.
        path: the file.
        count: how many examples, labels or lines it is about.
        what: what was found, without the file's name.
        remedy: what to do.
        places: where the first of them are: "line 3", or as the file counts; bert-tf check_data --json names it so.
        is_warning: False: a note, since there are too few to do harm.
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
        """The finding, its positions and the remedy, without the file's name."""
        return self.text_with()

    def text_with(self, source: str | None = None) -> str:
        """Returns `text`; where it has not room for all positions it says which source has them."""
        shown = ", ".join(self.places[:_SHOWN])
        if len(self.places) > _SHOWN:
            kept = "all" if len(self.places) < _KEPT else f"the first {_KEPT:,}"
            shown += ", ..." + (f"; {kept}: {source}" if source else "")
        return f"{self.what}{f' ({shown})' if shown else ''}; {self.remedy}."


def format_positions(path: str, where: Callable[[int], str], indices: Iterable[int]) -> tuple[str, ...]:
    """Returns where the first 1,000 of these examples are, without the file's name.

    Args:
        path: the file.
        where: index -> "file:3", or "file: row 3".
        indices: of the examples.
    """
    rests = [where(int(i)).removeprefix(path) for _, i in zip(range(_KEPT), indices, strict=False)]
    return tuple(f"line {rest[1:]}" if rest[1:].isdigit() else rest.removeprefix(": ") for rest in rests)


def first_lines(numbers: Iterable[int]) -> tuple[str, ...]:
    """Returns the first 1,000 of these lines as positions."""
    return tuple(f"line {number}" for _, number in zip(range(_KEPT), numbers, strict=False))


def format_share(count: int, of: int, what: str, verb: tuple[str, str] | None = None) -> str:
    """Returns "34 of 2,490 examples (1.4 %)", and behind it the form of the verb for one or for several."""
    percent = 100 * count / max(1, of)
    number = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"{count:,} of {of:,} {what} ({number} %)" + (f" {word_for(count, *verb)}" if verb else "")


# === Samples ===
# A file of examples as the checks see it, whatever the task: texts, targets, label names.


_ODD = np.int64(6364136223846793005)  # mixes the hashes of two texts, so that it matters which is the first
EMPTY_TEXT_HASH = hash("")


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The settings with which a table was read; see `tables.read_table`."""

    header: bool
    text_columns: Sequence[str | int]
    label_column: str | int | None


@dataclasses.dataclass(frozen=True)
class LintSample:
    """The n examples of one file.

    Attributes:
        path: the file.
        where: index -> "file:line", as errors begin with it.
        texts: name -> n texts.
        targets: what examples of the same texts must have alike; None: nothing is aimed at.
        labels: the name of each example's label, or the names of all of its labels; None: there are no names.
        label: what a name is called: "label".
        target: what a target is called.
        table: how it was read, where that was by flags; None: the format leaves no choice.
        optional: names of the texts that an example need not have.
        bad_labels: line -> label of each row that is no example, since its label is empty or cannot be read.
        bad_texts: line -> what stands instead of a text, such as None, of each row that is no example for that.
        fewest_words: examples whose texts have fewer words recur by nature, and are not compared.
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

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def positions(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Returns where the first 1,000 of these examples are."""
        return format_positions(self.path, self.where, indices)

    def finding(
        self, kind: str, indices: Collection[int], what: str, remedy: str, warn_from: float = 0.0
    ) -> DataFinding:
        """Returns what was found in some examples: a warning where they are this share of all, else a note."""
        is_warning = len(indices) >= warn_from * len(self)
        return DataFinding(kind, self.path, len(indices), what, remedy, self.positions(indices), is_warning)

    def names(self, index: int) -> Sequence[str]:
        """Returns the names of an example's labels."""
        labels = self.labels[index]
        return (labels,) if isinstance(labels, str) else labels

    @functools.cached_property
    def hashes(self) -> Mapping[str, np.ndarray]:
        """Name of a text -> int64 [n], the same for texts that are the same but for case and outer spaces.

        Python's own hash of 64 bits, the same in one process: among ten million texts two that differ share one with a
        chance of 3 in a million.
        """
        n = len(self)
        return {name: np.fromiter(map(hash, map(_plain, texts)), np.int64, n) for name, texts in self.texts.items()}

    @functools.cached_property
    def fingerprints(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 [k], ascending, the same for examples of the same texts; and the examples they are of, int64 [k].

        These are all n, or those that are compared; of the same texts the earlier one comes first.
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
