"""Rows of unequal lengths, concatenated in one array."""

from typing import NamedTuple

import numpy as np

_LONG = 32  # average values per row from which rows are copied one by one


class Ragged(NamedTuple):
    """n rows of unequal lengths, concatenated in one array.

        flat    7 7 7 4 4 9      splits   0 3 5 6       three rows: 7 7 7, 4 4 and 9

    Attributes:
        flat: [all values], any dtype.
        splits: int64 [n + 1], offsets of the rows.
    """

    flat: np.ndarray
    splits: np.ndarray

    @classmethod
    def of_lengths(cls, flat, lengths) -> "Ragged":
        """Returns the rows of `flat` with these lengths, int [n]."""
        return cls(flat, splits_of(lengths))

    @property
    def lengths(self):
        """Returns the lengths of the rows, int64 [n]."""
        return np.diff(self.splits)

    def take(self, rows) -> "Ragged":
        """Returns the rows (int [k]) in the given order."""
        starts, lengths = self.splits[:-1][rows], self.lengths[rows]
        selection = Ragged.of_lengths(np.empty(int(lengths.sum()), self.flat.dtype), lengths)
        if len(selection.flat) < _LONG * len(lengths):
            np.take(self.flat, ranges(starts, lengths), out=selection.flat, mode="clip")
            return selection
        begin, end = starts.tolist(), (starts + lengths).tolist()  # one index per value would cost more than a loop
        for row, a, b in zip(selection.rows(), begin, end, strict=True):
            row[:] = self.flat[a:b]
        return selection

    def rows(self) -> list:
        """Returns a view of each row."""
        return [self.flat[a:b] for a, b in zip(self.splits[:-1].tolist(), self.splits[1:].tolist(), strict=True)]


def splits_of(lengths):
    """Returns the cumulative sum of lengths (int [n]), starting at 0, int64 [n + 1]."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def ranges(starts, lengths) -> np.ndarray:
    """Returns the concatenated ranges [start, start + length), int64 [sum of lengths]."""
    first = splits_of(lengths)[:-1]
    return np.repeat(np.asarray(starts, np.int64) - first, lengths) + np.arange(int(np.sum(lengths)))


def concatenate_features(parts) -> Ragged:
    """Concatenates the rows of all `parts` (at least one Ragged)."""
    return Ragged.of_lengths(np.concatenate([p.flat for p in parts]), np.concatenate([p.lengths for p in parts]))


NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # zero rows of bytes
