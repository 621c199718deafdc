"""Rows of unequal lengths, end to end in one array."""

from typing import NamedTuple

import numpy as np

_LONG = 32  # values of a row on average, from which on rows are copied one by one


class Ragged(NamedTuple):
    """n rows of one array.

        flat    7 7 7 4 4 9      splits   0 3 5 6       three rows: 7 7 7, 4 4 and 9

    Attributes:
        flat: [all values], any dtype.
        splits: int64 [n + 1], where each row begins and ends.
    """

    flat: np.ndarray
    splits: np.ndarray

    @classmethod
    def of_lengths(cls, flat, lengths) -> "Ragged":
        """Returns the rows of `flat` that have these lengths, int [n]."""
        return cls(flat, splits_of(lengths))

    @property
    def lengths(self):
        """int64 [n]."""
        return np.diff(self.splits)

    def take(self, rows) -> "Ragged":
        """Returns the rows (int [k]) in the order asked for."""
        starts, lengths = self.splits[:-1][rows], self.lengths[rows]
        selection = Ragged.of_lengths(np.empty(int(lengths.sum()), self.flat.dtype), lengths)
        if len(selection.flat) < _LONG * len(lengths):
            np.take(self.flat, ranges(starts, lengths), out=selection.flat, mode="clip")
            return selection
        begin, end = starts.tolist(), (starts + lengths).tolist()  # an index for each value would cost more than a loop
        for row, a, b in zip(selection.rows(), begin, end, strict=True):
            row[:] = self.flat[a:b]
        return selection

    def rows(self) -> list:
        """Returns a view of each row."""
        return [self.flat[a:b] for a, b in zip(self.splits[:-1].tolist(), self.splits[1:].tolist(), strict=True)]


def splits_of(lengths):
    """Returns int64 [n + 1], the running sum of lengths (int [n]) from 0."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def ranges(starts, lengths):
    """Returns int64 [sum of lengths]: starts[0], starts[0] + 1, ... for lengths[0] values, then from starts[1] on."""
    first = splits_of(lengths)[:-1]
    return np.repeat(np.asarray(starts, np.int64) - first, lengths) + np.arange(int(np.sum(lengths)))


def concatenate(parts) -> Ragged:
    """Returns the rows of all `parts` (Ragged, one at least), one after the other."""
    return Ragged.of_lengths(np.concatenate([p.flat for p in parts]), np.concatenate([p.lengths for p in parts]))


NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # no row of bytes
