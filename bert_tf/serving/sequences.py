"""How many tokens a request makes a model compute, and in which parts: as far as a server can tell beforehand."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from bert_tf.serving.batching_rows import BYTES_PER_TOKEN, SPECIAL_TOKENS, group_of, lengths_of
from bert_tf.serving.errors import invalid
from bert_tf.serving.signatures import Signature

_FEW_ROWS = 32
_PART_TOKENS = 2**14  # with padding: what keeps all cores busy, and of a BERT-base takes some 200 MB


@dataclasses.dataclass(frozen=True)
class Sequences:
    """What an export says of the sequences that it reads; the default is that of a model which says nothing.

    Attributes:
        positions: the longest that the model has positions for; None: not known.
        text_tokens: the most tokens that are read of a text; 0: all of them.
    """

    positions: int | None = None
    text_tokens: int = 512

    def count(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Returns the tokens of a request, about: of texts by their bytes, of numbers as many as there are.

        Args:
            inputs: {alias: array}; arrays of numbers, ids and their mask, stand side by side and count once.
        """
        numbers = texts = 0
        for array in inputs.values():
            if array.dtype == object:
                texts += sum(self._of_text(len(text)) for text in array.ravel().tolist())
            else:
                numbers = max(numbers, array.size)
        return numbers + texts

    def check(self, signature: Signature, inputs: Mapping[str, np.ndarray]):
        """Raises ServingError where a sequence of ids is longer than the model has positions for."""
        if self.positions is None:
            return
        for alias, endpoint in signature.inputs.items():
            array = inputs.get(alias)
            is_sequences = endpoint.shape is not None and len(endpoint.shape) > 1 and endpoint.shape[-1] is None
            if is_sequences and array is not None and array.dtype != object and array.shape[-1:] > (self.positions,):
                raise invalid(
                    f"The input {alias} may have {self.positions} tokens in a sequence and has {array.shape[-1]}"
                )

    def parts(self, signature: Signature, inputs: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """Yields the inputs in parts of consecutive rows that take a bounded amount of memory to compute.

        Everything is one part where there is not much of it, or where the answers to rows are not known to be
        independent of each other and of one width.
        """
        rows = len(next(iter(inputs.values()), ())) if all(map(np.ndim, inputs.values())) else 0
        if rows <= _FEW_ROWS or self.positions is None or group_of(signature, inputs) is None:
            yield inputs
            return
        start = longest = 0
        for end, length in enumerate(map(self._cut, lengths_of(inputs))):
            longest = max(longest, length)
            if end - start >= _FEW_ROWS and longest * (end - start + 1) > _PART_TOKENS:
                yield {alias: array[start:end] for alias, array in inputs.items()}
                start, longest = end, length
        yield {alias: array[start:] for alias, array in inputs.items()} if start else inputs

    def _of_text(self, size):
        return self._cut(size // BYTES_PER_TOKEN + SPECIAL_TOKENS)

    def _cut(self, tokens):
        return min(tokens, self.text_tokens) if self.text_tokens else tokens
