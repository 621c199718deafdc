"""Rows that must stay together: those of the same texts, and those that share a value, such as a user's name."""

from collections.abc import Hashable, Sequence

import numpy as np

from bert_tf.data.checks.samples import Sample


def of_texts(sample: Sample) -> np.ndarray:
    """Returns int64 [n]: for each of the n examples the first one that has the same texts.

    The same are those that `checks.texts.overlap` finds in two files: case and outer spaces do not count.
    """
    hashes, examples = sample.fingerprints  # ascending hashes; of the same ones the earlier example stands first
    begins = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    first = np.empty(len(sample), np.int64)
    first[examples] = examples[begins][np.cumsum(begins) - 1]
    return first


def of_values(values: Sequence[Hashable]) -> np.ndarray:
    """Returns int64 [n]: for each of n values the place of the first one that is the same."""
    first = {}
    return np.fromiter((first.setdefault(value, i) for i, value in enumerate(values)), np.int64, len(values))


def join(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the same number, that of the first, for rows that one of two groupings puts together.

    Where a is with b in one, and b with c in the other, all three are together.

    Args:
        one, other: int64 [n], as the functions above return them.
    """
    leader = one.tolist()  # each points to itself or to an earlier one
    for i, first in enumerate(other.tolist()):
        a, b = _find(leader, i), _find(leader, first)
        leader[max(a, b)] = min(a, b)
    return np.array([_find(leader, i) for i in range(len(leader))], np.int64)


def _find(leader, i):
    while leader[i] != i:
        leader[i] = leader[leader[i]]
        i = leader[i]
    return i
