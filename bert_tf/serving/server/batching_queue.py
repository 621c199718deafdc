"""A queue of waiting rows, sorted by length so that batches need little padding. It has no threads and no clock."""

import bisect
import collections
import dataclasses
import operator
from collections.abc import Hashable
from typing import Any


@dataclasses.dataclass(eq=False, slots=True)
class BatchItem:
    """One text, or one example, of a request.

    Attributes:
        task: the request, opaque to the queue.
        index: index of the row in the request.
        length: estimated tokens of the row.
        number: position in the order of arrival; set by the queue.
        taken: whether it has left the queue; set by the queue.
    """

    task: Any
    index: int
    length: int
    number: int = -1
    taken: bool = False


@dataclasses.dataclass(eq=False, slots=True)
class _Request:
    """The rows of a request in order, some of which may be in batches already, and the number of waiting ones."""

    group: Hashable
    rows: collections.deque[BatchItem] = dataclasses.field(default_factory=collections.deque)
    waiting: int = 0


_rank = operator.attrgetter("length", "number")


class LengthQueue:
    """A queue of rows by group; only rows of one group may share a batch.

    Requests take turns: each batch has a row of the request whose turn it is, so that a short request waits for one
    batch of each of the others, not for thousands of earlier rows.

    Args:
        max_rows: maximum rows per batch.
        max_tokens: maximum tokens per batch, with padding: rows times the longest. A longer row is computed alone.
    """

    def __init__(self, max_rows: int, max_tokens: int):
        self._max_rows, self._max_tokens = max_rows, max_tokens
        self._sorted: dict[Hashable, list[BatchItem]] = {}
        self._requests: collections.OrderedDict[Hashable, _Request] = collections.OrderedDict()
        self._count = 0

    def __len__(self):
        """The number of waiting rows."""
        return sum(map(len, self._sorted.values()))

    def add(self, group: Hashable, row: BatchItem):
        """Adds a row."""
        row.number, self._count = self._count, self._count + 1
        bisect.insort(self._sorted.setdefault(group, []), row, key=_rank)
        request = self._requests.setdefault((group, row.task), _Request(group))
        request.rows.append(row)
        request.waiting += 1

    def load(self, most: int) -> int:
        """Returns the number of waiting rows, counting at most `most` per request."""
        return sum(min(request.waiting, most) for request in self._requests.values())

    def next(self) -> BatchItem | None:
        """Returns the row for the next batch: the first waiting row of the request whose turn it is."""
        if not self._requests:
            return None
        rows = next(iter(self._requests.values())).rows
        while rows[0].taken:
            rows.popleft()
        return rows[0]

    def peek(self) -> tuple[Hashable, int, int] | None:
        """Returns (group, start, end): the slice of the group's sorted rows for the next batch.

        It contains `next`, so that no row waits forever, and the rows nearest to it in length.
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
        """Returns (group, rows) of the next batch, and removes the rows from the queue; None if it is empty."""
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
        """Whether the next batch is already as large as possible."""
        found = self.peek()
        if found is None:
            return False
        group, start, end = found
        longest = self._sorted[group][end - 1].length
        return end - start >= self._max_rows or (end - start + 1) * longest > self._max_tokens

    def remove(self, group: Hashable, task: Any):
        """Removes the rows of an abandoned request."""
        rows = self._sorted.get(group, [])
        for row in rows:
            row.taken = row.taken or row.task is task
        rows[:] = [row for row in rows if not row.taken]
        if not rows:
            self._sorted.pop(group, None)
        self._requests.pop((group, task), None)

    def _cost_below(self, rows, start, end):
        """Returns the padding for the next shorter row, or None if it does not fit."""
        longest = rows[end - 1].length
        if not start or (end - start + 1) * longest > self._max_tokens:
            return None
        return longest - rows[start - 1].length

    def _cost_above(self, rows, start, end):
        """Returns the padding of the others with the next longer row, or None if it does not fit."""
        if end == len(rows) or (end - start + 1) * rows[end].length > self._max_tokens:
            return None
        return (end - start) * (rows[end].length - rows[end - 1].length)
