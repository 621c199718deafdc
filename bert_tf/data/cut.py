"""What of examples did not fit into their rows."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cut:
    """How far the rows of n examples are too short.

    Attributes:
        parameter: what limits them, such as "max_seq_length".
        limit: its value.
        needed: int64 [n], the least value with which nothing of the example would be cut.
        lost: word pieces of all examples that were cut off.
        total: word pieces of all examples.
    """

    parameter: str
    limit: int
    needed: np.ndarray
    lost: int
    total: int

    @property
    def examples(self) -> np.ndarray:
        """int64, the examples that lost something, ascending."""
        return np.flatnonzero(self.needed > self.limit)


def cut_of_rows(lengths: np.ndarray, max_seq_length: int, of: np.ndarray | None = None, n: int | None = None) -> Cut:
    """Returns what rows lost that were cut to `max_seq_length`.

    Args:
        lengths: int64 [w], of the rows as they would be, special pieces counted in.
        max_seq_length: of the rows as they are.
        of: int64 [w], the example of each row, from 0; None: every row is one.
        n: how many examples there are, with `of`.
    """
    needed = lengths
    if of is not None:
        needed = np.zeros(n, np.int64)
        np.maximum.at(needed, of, lengths)
    lost = np.maximum(lengths - max_seq_length, 0)
    return Cut("max_seq_length", max_seq_length, needed, int(lost.sum()), int(lengths.sum()))
