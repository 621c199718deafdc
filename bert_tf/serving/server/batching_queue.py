"""Rows that wait for a batch, sorted by length, so that those put together need little padding.

No threads and no clock in here: `batching.Batcher` has those.
"""

import bisect
import collections
import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from bert_tf.serving.server.tensors import Signature

# === Batching rows ===
# Requests cut into rows and put together again: which may share a batch, how long a row is, whose answer is whose.


BYTES_PER_TOKEN = 4  # of English, with its spaces; too short rather than too long, so that a batch stays in its budget
SPECIAL_TOKENS = 2


def group_of(signature: Signature, inputs: dict[str, np.ndarray]) -> tuple | None:
    """Returns what two requests of one version must have in common to share a batch; None: this one shares none.

    Rows can be put together, and answers taken apart, where every tensor has one entry for each row. An answer whose
    width depends on the texts (names in a text, vectors of its tokens) would come back as wide as a neighbour's: such
    a request is computed alone, unless all inputs are arrays whose widths agree.
    """
    arrays = [inputs[alias] for alias in signature.inputs if alias in inputs]
    if not arrays or any(not array.ndim or len(array) != len(arrays[0]) for array in arrays) or not len(arrays[0]):
        return None
    if not all(endpoint.has_rows for endpoint in (*signature.inputs.values(), *signature.outputs.values())):
        return None
    fixed = all(array.ndim > 1 for array in arrays)
    if not fixed and not all(endpoint.has_fixed_rows for endpoint in signature.outputs.values()):
        return None
    shapes = tuple((alias, inputs[alias].dtype.str, inputs[alias].shape[1:]) for alias in sorted(inputs))
    return signature.key, shapes


def lengths_of(inputs: Mapping[str, np.ndarray], most: int = 0, bytes_per_token: int = BYTES_PER_TOKEN) -> list[int]:
    """Returns the tokens of each row, about: of strings by their bytes, of arrays their width.

    Strings of several inputs, a question and its context, add up; arrays, ids and their mask, stand side by side. Of a
    row of several strings, choices, each is computed, as long as the longest.

    Args:
        inputs: {alias: array}, of equally many rows, at least one.
        most: tokens that are read of a sequence of strings; 0: all.
        bytes_per_token: of strings; with 1 no text has more tokens than that.
    """
    arrays = list(inputs.values())
    rows = len(arrays[0])
    width = max((int(np.prod(array.shape[1:])) for array in arrays if array.dtype != object), default=0)
    texts = [_longest(array.reshape(rows, -1)) for array in arrays if array.dtype == object]
    if not texts:
        return [max(1, width)] * rows
    several = max(1, *(array.size // rows for array in arrays if array.dtype == object))
    lengths = (SPECIAL_TOKENS + sum(each) // bytes_per_token for each in zip(*texts, strict=True))
    return [width + several * (min(length, most) if most else length) for length in lengths]


def stack_inputs(rows, aliases) -> dict[str, np.ndarray]:
    """Returns the inputs of a batch: row i of each array is that of rows[i]."""
    return {alias: _stacked([row.task.inputs[alias][row.index] for row in rows]) for alias in aliases}


def scattered(parts, count: int) -> dict[str, np.ndarray]:
    """Returns the answer of one request from parts [(indices of its rows, {alias: array})], which cover all rows."""
    if len(parts) == 1 and parts[0][0] == list(range(count)):
        return parts[0][1]
    answer = {}
    for alias, first in parts[0][1].items():
        whole = np.empty((count, *first.shape[1:]), first.dtype)
        for indices, arrays in parts:
            whole[indices] = arrays[alias]
        answer[alias] = whole
    return answer


def _longest(strings):
    return [max(map(len, row), default=0) for row in strings.tolist()]


def _stacked(items):
    if isinstance(items[0], np.ndarray) or not isinstance(items[0], bytes):
        return np.stack(items)
    array = np.empty(len(items), object)  # np.array would take a list of bytes for one of its own strings
    array[:] = items
    return array


# === Batching queue ===


@dataclasses.dataclass(eq=False, slots=True)
class BatchItem:
    """One text, or one example, of a request.

    Attributes:
        task: the request, of which the queue asks nothing.
        index: which of its rows.
        length: of the row in tokens, as far as one can tell beforehand.
        number: in the order of arrival; set by the queue.
        taken: whether it is in no queue any more; set by the queue.
    """

    task: Any
    index: int
    length: int
    number: int = -1
    taken: bool = False


@dataclasses.dataclass(eq=False, slots=True)
class _Request:
    """What waits of a request: its rows in their order, some of which other batches may have taken, and how many."""

    group: Hashable
    rows: collections.deque[BatchItem] = dataclasses.field(default_factory=collections.deque)
    waiting: int = 0


class LengthQueue:
    """Rows by group; only rows of one group may share a batch.

    Requests take turns: each batch has a row of the one whose turn it is, so that a short request waits for one batch
    of each of the others and not for thousands of rows that came before it.

    Args:
        max_rows: of a batch.
        max_tokens: of a batch with its padding: rows times the longest of them. A row that is longer goes alone.
    """

    def __init__(self, max_rows: int, max_tokens: int):
        self._max_rows, self._max_tokens = max_rows, max_tokens
        self._sorted: dict[Hashable, list[BatchItem]] = {}
        self._requests: collections.OrderedDict[Hashable, _Request] = collections.OrderedDict()
        self._count = 0

    def __len__(self):
        """Rows that wait."""
        return sum(map(len, self._sorted.values()))

    def add(self, group: Hashable, row: BatchItem):
        """Puts a row in."""
        row.number, self._count = self._count, self._count + 1
        bisect.insort(self._sorted.setdefault(group, []), row, key=_rank)
        request = self._requests.setdefault((group, row.task), _Request(group))
        request.rows.append(row)
        request.waiting += 1

    def load(self, most: int) -> int:
        """Returns the rows that wait, of each request `most` at most."""
        return sum(min(request.waiting, most) for request in self._requests.values())

    def next(self) -> BatchItem | None:
        """Returns the row that the next batch is made for: the first that waits of the request whose turn it is."""
        if not self._requests:
            return None
        rows = next(iter(self._requests.values())).rows
        while rows[0].taken:
            rows.popleft()
        return rows[0]

    def peek(self) -> tuple[Hashable, int, int] | None:
        """Returns (group, start, end): where the next batch would lie among the group's sorted rows.

        It holds `next`, so that nobody waits for ever, and those nearest to it in length.
        """
        seed = self.next()
        if seed is None:
            return None
        group = next(iter(self._requests.values())).group
        rows = self._sorted[group]
        start = bisect.bisect_left(rows, _rank(seed), key=_rank)
        end = start + 1
        while end - start < self._max_rows:
            shorter = self._cost_below(rows, start, end)
            longer = self._cost_above(rows, start, end)
            if shorter is None and longer is None:
                break
            if longer is None or (shorter is not None and shorter <= longer):
                start -= 1
            else:
                end += 1
        return group, start, end

    def take(self) -> tuple[Hashable, list[BatchItem]] | None:
        """Returns (group, rows) of the next batch, which wait no longer; None where nothing waits."""
        found = self.peek()
        if found is None:
            return None
        group, start, end = found
        rows = self._sorted[group]
        batch = rows[start:end]
        del rows[start:end]
        if not rows:
            del self._sorted[group]
        self._requests.move_to_end(next(iter(self._requests)))
        for row in batch:
            row.taken = True
            request = self._requests[group, row.task]
            request.waiting -= 1
            if not request.waiting:
                del self._requests[group, row.task]
        return group, batch

    def is_full(self) -> bool:
        """Whether more rows would not make the next batch larger."""
        found = self.peek()
        if found is None:
            return False
        group, start, end = found
        longest = self._sorted[group][end - 1].length
        return end - start >= self._max_rows or (end - start + 1) * longest > self._max_tokens

    def remove(self, group: Hashable, task: Any):
        """Takes the rows of a request out, which nobody waits for any more."""
        rows = self._sorted.get(group, [])
        for row in rows:
            row.taken = row.taken or row.task is task
        rows[:] = [row for row in rows if not row.taken]
        if not rows:
            self._sorted.pop(group, None)
        self._requests.pop((group, task), None)

    def _cost_below(self, rows, start, end):
        """Returns the padding that the next shorter row would need, None where it does not fit."""
        longest = rows[end - 1].length
        if not start or (end - start + 1) * longest > self._max_tokens:
            return None
        return longest - rows[start - 1].length

    def _cost_above(self, rows, start, end):
        """Returns the padding that the others would need beside the next longer row, None where it does not fit."""
        if end == len(rows) or (end - start + 1) * rows[end].length > self._max_tokens:
            return None
        return (end - start) * (rows[end].length - rows[end - 1].length)


def _rank(row):
    return row.length, row.number
