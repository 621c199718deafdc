"""A file of examples as the checks see it, whatever the task: texts, targets, label names."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.findings import DataFinding, format_positions

_ODD = np.int64(6364136223846793005)  # mixes the hashes of two texts, so that it matters which is the first
EMPTY_TEXT_HASH = hash("")


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The settings a table was read with; see `tables.read_table`."""

    header: bool
    text_columns: Sequence[str | int]
    label_column: str | int | None


@dataclasses.dataclass(frozen=True)
class CheckedExamples:
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
        """Returns a finding about some examples: a warning from this fraction of all on, otherwise a note."""
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
