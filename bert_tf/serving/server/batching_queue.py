"""Rows that wait for a batch, sorted by length, so that those put together need little padding.

No threads and no clock in here: `batching.Batcher` has those.
"""

import bisect
import collections
import dataclasses
from collections.abc import Hashable
from typing import Any


@dataclasses.dataclass(eq=False, slots=True)
class Row:
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
    rows: collections.deque[Row] = dataclasses.field(default_factory=collections.deque)
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
        self._sorted: dict[Hashable, list[Row]] = {}
        self._requests: collections.OrderedDict[Hashable, _Request] = collections.OrderedDict()
        self._count = 0

    def __len__(self):
        """Rows that wait."""
        return sum(map(len, self._sorted.values()))

    def add(self, group: Hashable, row: Row):
        """Puts a row in."""
        row.number, self._count = self._count, self._count + 1
        bisect.insort(self._sorted.setdefault(group, []), row, key=_rank)
        request = self._requests.setdefault((group, row.task), _Request(group))
        request.rows.append(row)
        request.waiting += 1

    def load(self, most: int) -> int:
        """Returns the rows that wait, of each request `most` at most."""
        return sum(min(request.waiting, most) for request in self._requests.values())

    def next(self) -> Row | None:
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

    def take(self) -> tuple[Hashable, list[Row]] | None:
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
