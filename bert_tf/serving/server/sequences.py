"""Estimates of the tokens that a request makes a model compute, and its split into parts."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.request_rows import BYTES_PER_TOKEN, NUM_SPECIAL_TOKENS, batching_group, estimate_lengths
from bert_tf.serving.server.signatures import Signature

_SIDE_BY_SIDE = ("input_ids", "input_mask", "segment_ids")
_PART_TOKENS = 2**12  # with padding: enough for all cores, and for BERT-base, some seconds and a tenth of a GB
_SHORT = 512  # tokens of a sequence; of a longer one attention, which grows with the square, is most of the memory
_BYTES_OF_A_TOKEN = 128  # of a text, which take about as much memory to tokenize as a token takes to compute


@dataclasses.dataclass(frozen=True)
class RequestPlan:
    """The plan of a request: its tokens and parts.

    Attributes:
        tokens: approximate total: for texts from their bytes, for numbers their count.
        weight: maximum memory of a run, in tokens of a short sequence.
        parts: the indices of the rows that are computed together; empty: all together.
    """

    tokens: int
    weight: int
    parts: tuple[np.ndarray, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Sequence lengths of an export, as it declares them; the defaults are for models without a declaration.

    Attributes:
        positions: the model's number of positions; None if unknown.
        text_tokens: maximum tokens read per text; 0 for all.
        per_text: number of sequences in which each text is read, such as one per label.
        added: tokens that are added to each of these sequences.
    """

    positions: int | None = None
    text_tokens: int = 512
    per_text: int = 1
    added: int = 0

    def plan(self, signature: Signature, inputs: dict[str, np.ndarray]) -> RequestPlan:
        """Plans how a request is computed.

        For an export that declares its sequence lengths, tokens count as computed: sequences of one part are all
        as long as the longest, and a context precedes each of its choices. A text that is read through
        windows is at least as long as the longest window.

        Rows of similar lengths form a part, so that there is little padding. There are no parts if everything is
        computed at once: because it is small, or because results may depend on other rows or not have
        one width.

        Args:
            signature: the requested signature.
            inputs: {alias: array}; parallel arrays of numbers, such as ids and mask, count once.
        """
        counts = {len(array) if np.ndim(array) else 0 for array in inputs.values()}
        rows = counts.pop() if len(counts) == 1 else 0
        if self.positions is None or not rows:
            tokens = self._count_unpadded(inputs)
            return RequestPlan(tokens, tokens)
        lengths, weights = self._lengths(inputs), self._weights(inputs)
        if rows > 1 and batching_group(signature, inputs) is not None:
            parts = _parts(lengths, weights)
            if len(parts) > 1:
                tokens = sum(self._padded([lengths[row] for row in part]) for part in parts)
                return RequestPlan(tokens, _PART_TOKENS, tuple(parts))
        return RequestPlan(self._padded(lengths), rows * max(weights))

    def _count_unpadded(self, inputs):
        """Returns the number of tokens of a request without padding."""
        texts = [text for array in inputs.values() if array.dtype == object for text in array.ravel().tolist()]
        tokens = [len(text) // BYTES_PER_TOKEN + NUM_SPECIAL_TOKENS for text in texts]
        if self.text_tokens:
            tokens = [min(each, self.text_tokens) for each in tokens]
        # A graph may add arrays of one rank with broadcasting, so each size is the largest.
        by_rank = {}
        for array in inputs.values():
            if array.dtype != object:
                by_rank.setdefault(array.ndim, []).append(array.shape)
        numbers = [math.prod(map(max, zip(*shapes, strict=True))) for shapes in by_rank.values()]
        return max(numbers, default=0) + sum(tokens)

    def check(self, signature: Signature, inputs: Mapping[str, np.ndarray]):
        """Checks a request against the common rules of exports that declare their sequence lengths.

        Raises:
            ServingError: inputs have different numbers of rows, ids and their mask or segments different shapes, or a
                sequence has more tokens than the model has positions.
        """
        if self.positions is None:
            return
        # The graph would broadcast ids, and drop contexts without choices.
        by_rows = [alias for alias, endpoint in signature.inputs.items() if endpoint.has_rows and alias in inputs]
        rows = {alias: len(inputs[alias]) if inputs[alias].ndim else "a single value" for alias in by_rows}
        _check_same("number of rows", rows)
        side_by_side = [alias for alias in _SIDE_BY_SIDE if alias in inputs]
        _check_same("shape", {alias: list(inputs[alias].shape) for alias in side_by_side})
        for alias, endpoint in signature.inputs.items():
            array = inputs.get(alias)
            is_sequences = endpoint.shape is not None and len(endpoint.shape) > 1 and endpoint.shape[-1] is None
            if is_sequences and array is not None and array.dtype != object and array.shape[-1:] > (self.positions,):
                raise invalid(
                    f"The input {alias} may have {self.positions} tokens in a sequence and has {array.shape[-1]}; "
                    "shorten it"
                )

    def _weights(self, inputs):
        """Returns the maximum memory of each row, in tokens of a short sequence.

        A truncated text has no more tokens than bytes: punctuation has as many, four times as many as words. No
        more than the first 64 KiB of it, or 256 bytes per token, are tokenized.
        """
        assert self.positions is not None  # otherwise, rows are not weighed
        lengths = self._lengths(inputs, 1 if self.text_tokens else BYTES_PER_TOKEN)
        most = max(2**16, 256 * self.text_tokens) // _BYTES_OF_A_TOKEN if self.text_tokens else 0
        to_tokenize = estimate_lengths(inputs, most, _BYTES_OF_A_TOKEN)
        return [
            max(length * max(_SHORT, min(length, self.positions)) // _SHORT, size)
            for length, size in zip(lengths, to_tokenize, strict=True)
        ]

    def _lengths(self, inputs, bytes_per_token=BYTES_PER_TOKEN):
        return estimate_lengths(inputs, self.text_tokens, bytes_per_token, self.per_text, self.added)

    def _padded(self, lengths):
        width = max(lengths) if self.text_tokens else min(max(lengths), self.positions)
        return sum(max(length, width) for length in lengths)


def _parts(lengths, weights):
    order = np.argsort(lengths, kind="stable")
    parts, start, most = [], 0, 0
    for end, row in enumerate(order):
        most = max(most, weights[row])
        if end > start and most * (end - start + 1) > _PART_TOKENS:
            parts.append(order[start:end])
            start, most = end, weights[row]
    return [*parts, order[start:]]


def _check_same(what, found):
    if any(value != next(iter(found.values())) for value in found.values()):
        values = ", ".join(map(str, found.values()))
        raise invalid(f"The inputs {', '.join(found)} must have the same {what}; got {values}")
