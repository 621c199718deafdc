"""A loaded model from texts to predictions, computed in batches of similar lengths."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from bert_tf.serving.errors import ServingError
from bert_tf.utils.counts import number_of
from bert_tf.utils.token_counts import TokenCountLog

if TYPE_CHECKING:
    from bert_tf.lite.fast_path import FastPath

Texts = Sequence[str] | Sequence[Sequence[str]]  # one per example; a list for an input that takes several


@dataclasses.dataclass(frozen=True)
class TextInput:
    """A text input of a model.

    Attributes:
        name: name in the signature.
        several: whether an example has a list of such texts: strings [n, k].
        column: whether an example has one, as strings [n, 1].
    """

    name: str
    several: bool = False
    column: bool = False

    def array(self, texts: Texts) -> np.ndarray:
        """Returns texts as bytes [n], [n, 1] or [n, k], without lone surrogates."""
        rows: list[Any]
        if self.several:
            rows = [[each.encode("utf-8", "ignore") for each in text] for text in texts]
            return np.array(rows, object)
        rows = [text.encode("utf-8", "ignore") for text in texts]
        array = np.array(rows, object)
        return array[:, None] if self.column else array


@dataclasses.dataclass(frozen=True)
class TextModel:
    """A loaded model of texts, exported or trained. Safe to call from several threads.

    Attributes:
        path: its directory.
        inputs: in the order of `bert-tf client ask`; alphabetical if that is unknown.
        compute: {input: bytes [n, ...]} -> {output: array [n, ...]}; raises ServingError or TensorFlow's OpError.
        fixed_outputs: the outputs whose rows have the same shape in every batch.
        token_counts: truncated texts and unknown tokens so far, if the model counts them.
        fast_path: LiteRT's model next to the exported one, which answers few texts; if None, there is none.
    """

    path: str
    inputs: tuple[TextInput, ...]
    compute: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    fixed_outputs: frozenset[str] = frozenset()
    token_counts: TokenCountLog | None = None
    fast_path: "FastPath | None" = None

    def batches(self, columns: Sequence[Texts], batch_size: int) -> Iterator[np.ndarray]:
        """Yields indices of examples: grouped by list length, with texts of similar lengths, the longest first.

        Args:
            columns: the texts of each input, n each.
            batch_size: examples per batch.
        """
        several = [column for column, each in zip(columns, self.inputs, strict=True) if each.several]
        counts = [tuple(map(len, each)) for each in zip(*several, strict=True)] or [()] * len(columns[0])
        lengths = [sum(len(text) if isinstance(text, str) else sum(map(len, text)) for text in each)
                   for each in zip(*columns, strict=True)]  # fmt: skip
        order = sorted(range(len(lengths)), key=lambda row: (counts[row], -lengths[row], row))
        start = 0
        while start < len(order):
            batch = order[start : start + batch_size]
            batch = [row for row in batch if counts[row] == counts[batch[0]]]
            yield np.array(batch)
            start += len(batch)

    def are_few(self, columns: Sequence[Texts]) -> bool:
        """Returns whether LiteRT's model answers texts of this number and these lengths; arguments as in `batches`."""
        return self.fast_path is not None and self.fast_path.takes(self._feeds(columns, range(len(columns[0]))))

    def run(
        self, columns: Sequence[Texts], chosen: np.ndarray, ids: Sequence, are_few: bool = False
    ) -> dict[str, np.ndarray]:
        """Returns {output: array [len(chosen), ...]} for some examples; strings are objects of type str.

        Args:
            columns: the texts of each input, n each.
            chosen: indices of the examples.
            ids: a name for each of the n examples, for errors.
            are_few: whether LiteRT's model answers, if it can.

        Raises:
            ValueError: the model cannot compute with these texts, or an output does not have one row per example.
        """
        feeds = self._feeds(columns, chosen)
        try:
            computed = (self._answer_by_fast_path(feeds) if are_few else None) or self.compute(feeds)
            outputs = {name: _numbers_or_text(array) for name, array in computed.items()}
        except (ServingError, tf.errors.OpError) as error:
            raise ValueError(
                f"{self.path} failed on {number_of(len(chosen), 'row')} from {ids[chosen[0]]!r} on: {error}"
            ) from error
        for name, array in outputs.items():
            if array.shape[:1] != (len(chosen),):
                raise ValueError(
                    f"`signature` must return one row per text. For {len(chosen)} texts, it returned the output "
                    f"{name!r} of shape {list(array.shape)}. Choose a signature with one row per text."
                )
        return outputs

    def _feeds(self, columns, chosen):
        pairs = zip(columns, self.inputs, strict=True)
        return {each.name: each.array([column[row] for row in chosen]) for column, each in pairs}

    def _answer_by_fast_path(self, feeds):
        answer = self.fast_path.answer(feeds)
        if answer is None:
            return None
        outputs, counts = answer
        self.token_counts.add(counts)
        return outputs


def _numbers_or_text(array):
    """Converts an output for NumPy and Arrow: text instead of bytes, float32 instead of bfloat16."""
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        return array.astype(np.float32)
    if not array.dtype.hasobject:
        return array
    text = np.empty(array.shape, object)
    text.flat = [value.decode("utf-8", "replace") for value in array.flat]
    return text
