"""Limits of what is computed at a time: runs of graphs, in the order of their requests, and tokens of all requests."""

import contextlib
import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping

import numpy as np

from bert_tf.serving.limits import invalid, unavailable
from bert_tf.serving.server.batching import BYTES_PER_TOKEN, SPECIAL_TOKENS, group_of, lengths_of
from bert_tf.serving.server.predict import Call, Turns
from bert_tf.serving.server.signatures import Signature
from bert_tf.utils import resources

# === Sequences ===
# The tokens that a request makes a model compute, and in which parts, as far as a server can tell beforehand.


_SIDE_BY_SIDE = ("input_ids", "input_mask", "segment_ids")
_PART_TOKENS = 2**12  # with padding: enough for all cores, and of a BERT-base some seconds and a tenth of a GB
_SHORT = 512  # tokens of a sequence; of a longer one attention, which grows with the square, is most of the memory
_BYTES_OF_A_TOKEN = 128  # of a text, which take about as much memory to tokenize as a token takes to compute


@dataclasses.dataclass(frozen=True)
class RequestPlan:
    """The tokens and the parts of a request.

    Attributes:
        tokens: in all, about: of texts by their bytes, of numbers as many as there are.
        weight: the memory that a run takes at most, in tokens of a short sequence.
        parts: the numbers of the rows that are computed together; empty: all are.
    """

    tokens: int
    weight: int
    parts: tuple[np.ndarray, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Lengths of the sequences that an export reads, as it says; the default is that of a model which says nothing.

    Attributes:
        positions: the longest that the model has positions for; None: not known.
        text_tokens: the most tokens that are read of a text; 0: all of them.
    """

    positions: int | None = None
    text_tokens: int = 512

    def plan(self, signature: Signature, inputs: dict[str, np.ndarray]) -> RequestPlan:
        """Returns how a request is computed.

        Of an export that says how long its sequences are, tokens count as they are computed: those of one part are all
        as long as the longest of them, and a context stands before each of its choices. A text that is read through
        windows is as long as the longest of these at least.

        Rows of about one length are together in a part, so that little is padding. There are no parts where all is
        computed at once: it is not much, or the answers to rows are not known to be independent of each other and of
        one width.

        Args:
            signature: which is asked.
            inputs: {alias: array}; arrays of numbers, ids and their mask, stand side by side and count once.
        """
        counts = {len(array) if np.ndim(array) else 0 for array in inputs.values()}
        rows = counts.pop() if len(counts) == 1 else 0
        if self.positions is None or not rows:
            tokens = self._count_unpadded(inputs)
            return RequestPlan(tokens, tokens)
        lengths, weights = lengths_of(inputs, self.text_tokens), self._weights(inputs)
        if rows > 1 and group_of(signature, inputs) is not None:
            parts = _parts(lengths, weights)
            if len(parts) > 1:
                tokens = sum(self._padded([lengths[row] for row in part]) for part in parts)
                return RequestPlan(tokens, _PART_TOKENS, tuple(parts))
        return RequestPlan(self._padded(lengths), rows * max(weights))

    def _count_unpadded(self, inputs):
        """Returns the tokens of the texts and numbers of a request without padding."""
        texts = [text for array in inputs.values() if array.dtype == object for text in array.ravel().tolist()]
        tokens = [len(text) // BYTES_PER_TOKEN + SPECIAL_TOKENS for text in texts]
        if self.text_tokens:
            tokens = [min(each, self.text_tokens) for each in tokens]
        # A graph may add up arrays of one rank, of which each size is then the largest.
        by_rank = {}
        for array in inputs.values():
            if array.dtype != object:
                by_rank.setdefault(array.ndim, []).append(array.shape)
        numbers = [math.prod(map(max, zip(*shapes, strict=True))) for shapes in by_rank.values()]
        return max(numbers, default=0) + sum(tokens)

    def check(self, signature: Signature, inputs: Mapping[str, np.ndarray]):
        """Holds a request to what an export that says how long its sequences are has in common.

        Raises:
            ServingError: inputs have different numbers of rows, ids and their mask or segments different shapes, or a
                sequence has more tokens than the model has positions.
        """
        if self.positions is None:
            return
        # The graph would broadcast ids, and leave contexts out for which there are no choices.
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
        """Returns the memory that each row may take at most, in tokens of a short sequence.

        A text that is cut has no more tokens than bytes: one of punctuation has as many, four times those of words. No
        more than the first 64 KiB of it, or 256 bytes a token, are tokenized.
        """
        lengths = lengths_of(inputs, self.text_tokens, 1 if self.text_tokens else BYTES_PER_TOKEN)
        most = max(2**16, 256 * self.text_tokens) // _BYTES_OF_A_TOKEN if self.text_tokens else 0
        to_tokenize = lengths_of(inputs, most, _BYTES_OF_A_TOKEN)
        return [
            max(length * max(_SHORT, min(length, self.positions)) // _SHORT, size)
            for length, size in zip(lengths, to_tokenize, strict=True)
        ]

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
        raise invalid(f"The inputs {', '.join(found)} must have one {what}. Received {values}")


# === Scheduler ===


_SHORT_TOKENS = 2**9  # of a run for which there is always room: a sequence
_LARGE_TOKENS = 2**15  # of a run that takes so much memory that two are not computed side by side
_BEGUN = 2  # requests of several parts that run at a time
_SMALL_ANSWER = 2**14  # elements of an answer that is always sent


class Budget:
    """An amount that all requests of a server may hold together; a single one may hold more.

    Args:
        most: of all.
        refusal: words for one that must come again later, with {held} and {most}.
        small: an amount up to which nothing is refused.

    Attributes:
        held: now, by all.
    """

    def __init__(self, most: int, refusal: str, small: int = -1):
        self.most, self.held = most, 0
        self._refusal, self._small, self._lock = refusal, small, threading.Lock()

    @contextlib.contextmanager
    def take(self, amount: int) -> Iterator[None]:
        """A block in which so much is held.

        Raises:
            ServingError: the others hold so much that this one must come again later.
        """
        with self._lock:
            if amount > self._small and self.held and self.held + amount > self.most:
                raise unavailable(self._refusal.format(held=self.held, most=self.most))
            self.held += amount
        try:
            yield
        finally:
            with self._lock:
                self.held -= amount


class Scheduler:
    """Turns of a server's requests to be computed, for all of its models together.

    Args:
        max_concurrent_runs: runs of a graph at a time; 0: two for each core.
        max_pending_tokens: tokens of all requests that run or wait.
        max_pending_elements: of all answers that are written and sent.

    Attributes:
        requests: budget of the tokens of requests that run or wait.
        answers: budget of the elements of answers that are in memory.
    """

    def __init__(
        self, max_concurrent_runs: int = 0, max_pending_tokens: int = 2**20, max_pending_elements: int = 2**26
    ):
        runs = max_concurrent_runs or 2 * resources.cores()
        self._runs, self._long, self._large = Turns(runs), Turns(max(1, runs - 1)), Turns(1)
        self._in_parts = Turns(_BEGUN)
        self.requests = Budget(
            max_pending_tokens,
            "The server has requests of {held} tokens to answer, and takes {most} at a time; try again later",
        )
        self.answers = Budget(
            max_pending_elements,
            "The server is sending answers of {held} elements, and holds {most} at a time; try again later",
            _SMALL_ANSWER,
        )

    def begun(self, call: Call) -> contextlib.AbstractContextManager[None]:
        """Returns a block in which a request of several parts runs: two at a time, so that the first are soon answered.

        Raises:
            ServingError: as `turn`.
        """
        return self._in_parts.turn(call)

    @contextlib.contextmanager
    def turn(self, call: Call, tokens: float) -> Iterator[None]:
        """A block in which a graph computes about this many tokens.

        One of the turns is kept for short runs, which wait for each other alone. Of large ones one runs at a time.

        Raises:
            ServingError: before it is the caller's turn, nobody waits for the answer any more.
        """
        with contextlib.ExitStack() as turns:
            if tokens > _LARGE_TOKENS:
                turns.enter_context(self._large.turn(call))
            if tokens > _SHORT_TOKENS:
                turns.enter_context(self._long.turn(call))
            turns.enter_context(self._runs.turn(call))
            yield
