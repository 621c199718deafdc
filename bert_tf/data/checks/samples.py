"""What the checks see of a file of examples, whatever the task: texts, targets, names of labels."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.checks.findings import places_of

_ODD = np.int64(6364136223846793005)  # mixes the hashes of two texts, so that it matters which is the first
EMPTY = hash("")


@dataclasses.dataclass(frozen=True)
class Table:
    """How a table was read; see `tables.read_table`."""

    header: bool
    text_columns: Sequence[str | int]
    label_column: str | int | None


@dataclasses.dataclass(frozen=True)
class Sample:
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
        bad_texts: line -> what stands in place of a text, such as None, of each row that is no example for that.
        fewest_words: examples whose texts have fewer words recur by nature, and are not compared.
    """

    path: str
    where: Callable[[int], str]
    texts: Mapping[str, Sequence[str]]
    targets: Sequence[Hashable] | None = None
    labels: Sequence[str] | Sequence[Sequence[str]] | None = None
    label: str = "label"
    target: str = "label"
    table: Table | None = None
    optional: Collection[str] = ()
    bad_labels: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    bad_texts: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    fewest_words: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def places(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Returns where the first 1,000 of these examples are."""
        return places_of(self.path, self.where, indices)

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

        These are all n, or those that are compared; of the same texts the earlier one stands first.
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
