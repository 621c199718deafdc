"""Labeled words or texts from a file for a probe."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.tables import read_table
from bert_tf.tasks.tagging.columns import read_columns


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts with labels for their words or for the texts themselves.

    Attributes:
        texts: n texts, or pairs of them.
        words: the offsets of each text's words, (start, end) in code points; None if texts have labels.
        types: for each text, the names of the labeled items: its words as written; for a text, its first word.
        labels: for each text, the labels of these; if None, no labels were read.
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
        """The number of labeled words or texts."""
        return sum(map(len, self.types))

    def take(self, chosen: Sequence[int]) -> "Labelled":
        """Returns some of the texts."""

        def some(values):
            return None if values is None else [values[i] for i in chosen]

        return Labelled(some(self.texts), some(self.words), some(self.types), some(self.labels), self.path)

    def draw(self, most: int, seed: int) -> "Labelled":
        """Returns texts in random order, up to `most` words or texts."""
        order = np.random.default_rng(seed).permutation(len(self))
        counts = np.cumsum([len(self.types[i]) for i in order])
        return self.take(order[: max(1, int(np.searchsorted(counts, most, "right")))].tolist())

    def sample(self, most: int, seed: int) -> "Labelled":
        """Returns up to this many texts, drawn at random, in their original order."""
        return self.take(sorted(np.random.default_rng(seed).permutation(len(self))[:most].tolist()))

    def halves(self, share: float, seed: int) -> tuple["Labelled", "Labelled"]:
        """Splits the texts in two; the second part has this fraction of them, at least one text."""
        order = np.random.default_rng(seed).permutation(len(self)).tolist()
        cut = len(order) - max(1, round(share * len(order)))
        return self.take(order[:cut]), self.take(order[cut:])


def read_tagged_words(
    path: str, text_column: int = 0, tag_column: int | None = -1, encoding: str | None = None
) -> Labelled:
    """Reads words with tags of any kind, as `tagging_columns.read_columns` does; tag_column None: without."""
    examples = read_columns(path, text_column, tag_column, None, encoding)
    texts, spans = zip(*map(examples.text_of, range(len(examples))), strict=True)
    return Labelled(list(texts), list(spans), examples.words, examples.tags, path)


def read_labelled_texts(
    path: str,
    text_columns: Sequence[str] = ("text",),
    label_column: str | None = "label",
    header=True,
    dialect: Dialect = DEFAULT_DIALECT,
):
    """Reads texts, or pairs, with labels, as `data.tables.read_table` does: `Labelled`; without labels if None."""
    columns = {"text_columns": text_columns, "label_column": label_column}
    examples = read_table(path, header=header, dialect=dialect, **columns)
    texts = examples.text_a
    if examples.text_b is not None:
        texts = list(zip(texts, examples.text_b, strict=True))
    types = [[(text.split() or [""])[0]] for text in examples.text_a]
    labels = None if examples.labels is None else [[label] for label in examples.labels]
    return Labelled(texts, None, types, labels, path)
