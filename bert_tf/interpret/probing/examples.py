"""Labelled words or texts, drawn from a file for a probe."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_tf.data.tables import read_table
from bert_tf.tasks.tagging.columns import read_columns, text_of


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts with labels, of their words or of the texts themselves.

    Attributes:
        texts: n texts, or pairs of them.
        words: of each text where its words lie, (start, limit) in code points; None where texts have labels.
        types: of each text the names of what is labelled: its words as they are written; of a text its first word.
        labels: of each text a label for each of these; None: none were read.
        path: the file.
    """

    texts: list[str] | list[tuple[str, str]]
    words: list[list[tuple[int, int]]] | None
    types: list[list[str]]
    labels: list[list[str]] | None
    path: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def count(self) -> int:
        """How many labelled words, or texts."""
        return sum(map(len, self.types))

    def take(self, chosen: Sequence[int]) -> "Labelled":
        """Returns some of the texts."""

        def some(values):
            return None if values is None else [values[i] for i in chosen]

        return Labelled(some(self.texts), some(self.words), some(self.types), some(self.labels), self.path)

    def draw(self, most: int, seed: int) -> "Labelled":
        """Returns texts of a random order until `most` words, or texts, are there: all where there are no more."""
        order = np.random.default_rng(seed).permutation(len(self))
        counts = np.cumsum([len(self.types[i]) for i in order])
        return self.take(order[: max(1, int(np.searchsorted(counts, most, "right")))].tolist())

    def sample(self, most: int, seed: int) -> "Labelled":
        """Returns that many texts in their order, drawn at random: all where there are no more."""
        return self.take(sorted(np.random.default_rng(seed).permutation(len(self))[:most].tolist()))

    def halves(self, share: float, seed: int) -> tuple["Labelled", "Labelled"]:
        """Returns two parts of the texts, the second with that share of them, one at least."""
        order = np.random.default_rng(seed).permutation(len(self)).tolist()
        cut = len(order) - max(1, round(share * len(order)))
        return self.take(order[:cut]), self.take(order[cut:])


def read_words(path: str, text_column: int = 0, tag_column: int | None = -1) -> Labelled:
    """Reads words with tags of any kind, as `tasks.tagging.columns.read_columns` does; tag_column None: without."""
    examples = read_columns(path, text_column, tag_column, None)
    texts, spans = zip(*map(text_of, examples.words), strict=True)
    return Labelled(list(texts), list(spans), examples.words, examples.tags, path)


def read_texts(path: str, text_columns: Sequence[str] = ("text",), label_column: str | None = "label", header=True):
    """Reads texts, or pairs, with labels, as `data.tables.read_table` does: `Labelled`; label_column None: without."""
    examples = read_table(path, header=header, text_columns=text_columns, label_column=label_column)
    texts = examples.text_a
    if examples.text_b is not None:
        texts = list(zip(texts, examples.text_b, strict=True))
    types = [[(text.split() or [""])[0]] for text in examples.text_a]
    labels = None if examples.labels is None else [[label] for label in examples.labels]
    return Labelled(texts, None, types, labels, path)
