"""What the checks see of a file of examples, whatever the task: texts, targets, names of labels."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np

from bert_tf.data.checks.findings import places_of


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

    def fingerprints(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns what tells whether two examples of this process have the same texts, but for case and outer spaces.

        Python's own hash of 64 bits: among ten million texts two that differ share one with a chance of 3 in a million.

        Returns:
            int64 [k], and int64 [k], the examples they are of, ascending: all n, or those that are compared.
        """
        columns = [map(_plain, texts) for texts in self.texts.values()]
        keys = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
        hashes, n = map(hash, keys), len(self)
        hashes = np.fromiter(hashes, np.int64, n)
        if not self.fewest_words:
            return hashes, np.arange(n)
        words = sum(np.fromiter((text.count(" ") + 1 for text in texts), np.int64, n) for texts in self.texts.values())
        long = np.flatnonzero(words >= self.fewest_words)
        return hashes[long], long


def _plain(text):
    return text.lower().replace("  ", " ").strip()  # and no more: this is most of the cost of all checks
