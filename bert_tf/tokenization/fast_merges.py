"""Merges of byte pair encoding in plain Python, for one word at a time."""

import heapq
from collections.abc import Callable, Iterable

_MERGED = -1  # in place of the id of a token that has become part of the one before it


class PairMerger:
    """Merges the tokens of a word: always the pair of the lowest rank, in ties the left one.

    Args:
        merges: pairs of tokens, in the order they were learned; of one that occurs twice, the first counts.
        id_of: token -> id.
        size: a number above all ids.
    """

    def __init__(self, merges: Iterable[tuple[str, str]], id_of: Callable[[str], int | None], size: int):
        self._size, self._made = size, []
        self._ranks: dict[int, int] = {}  # two ids, as one number, -> rank of their merge
        for left, right in merges:
            self._ranks.setdefault(self._pair(id_of(left), id_of(right)), len(self._made))
            self._made.append(id_of(left + right))

    def __call__(self, ids: list[int]) -> list[int]:
        """Returns the ids after all merges; `ids` are changed. The time is nearly proportional to their number."""
        ranks, length = self._ranks, len(ids)
        before, behind = list(range(-1, length - 1)), list(range(1, length + 1))
        queue = []  # (rank of the merge, where its left token begins)

        def offer(left):
            right = behind[left]
            rank = ranks.get(self._pair(ids[left], ids[right])) if right < length else None
            if rank is not None:
                heapq.heappush(queue, (rank, left))

        for at in range(length - 1):
            offer(at)
        while queue:
            rank, left = heapq.heappop(queue)
            right = behind[left]
            if ids[left] == _MERGED or right == length or ranks.get(self._pair(ids[left], ids[right])) != rank:
                continue  # what it would have merged is no longer there
            ids[left], ids[right], behind[left] = self._made[rank], _MERGED, behind[right]
            offer(left)
            if behind[left] < length:
                before[behind[left]] = left
            if before[left] >= 0:
                offer(before[left])
        return [number for number in ids if number != _MERGED]

    def _pair(self, left, right):
        return left * self._size + right
