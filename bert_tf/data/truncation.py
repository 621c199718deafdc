"""Counts of truncated tokens."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Truncation:
    """Counts of truncated tokens in n examples.

    Attributes:
        parameter: the parameter that limits them, such as "max_seq_length".
        limit: its value.
        needed: int64 [n], the smallest limit without truncation of each example.
        lost: number of truncated tokens of all examples.
        total: total number of tokens of all examples.
    """

    parameter: str
    limit: int
    needed: np.ndarray
    lost: int
    total: int

    @property
    def examples(self) -> np.ndarray:
        """Indices of the truncated examples, int64, ascending."""
        return np.flatnonzero(self.needed > self.limit)


def count_truncated(
    lengths: np.ndarray, max_seq_length: int, of: np.ndarray | None = None, n: int | None = None
) -> Truncation:
    """Counts the tokens truncated to `max_seq_length`.

    Args:
        lengths: int64 [w], lengths of the untruncated sequences, including special tokens.
        max_seq_length: maximum length of the truncated sequences.
        of: int64 [w], the example of each sequence, from 0. If None, each sequence is an example.
        n: number of examples, required with `of`.
    """
    needed = lengths
    if of is not None:
        needed = np.zeros(n, np.int64)
        np.maximum.at(needed, of, lengths)
    lost = np.maximum(lengths - max_seq_length, 0)
    return Truncation("max_seq_length", max_seq_length, needed, int(lost.sum()), int(lengths.sum()))
