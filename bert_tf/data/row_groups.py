"""Groups of rows that must stay together: those with the same texts, or with the same value, such as a user's name."""

from collections.abc import Hashable, Sequence

import numpy as np

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.near_duplicates import find_leader


def group_by_texts(sample: CheckedExamples) -> np.ndarray:
    """Returns int64 [n]: for each of n examples, the index of the first one with the same texts.

    Texts are compared as in `text_checks.find_overlap`: case and outer spaces are ignored.
    """
    hashes, examples = sample.fingerprints  # ascending hashes; of equal ones, the earlier example comes first
    begins = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    first = np.empty(len(sample), np.int64)
    first[examples] = examples[begins][np.cumsum(begins) - 1]
    return first


def group_by_values(values: Sequence[Hashable]) -> np.ndarray:
    """Returns int64 [n]: for each of n values, the index of the first equal one."""
    first = {}
    return np.fromiter((first.setdefault(value, i) for i, value in enumerate(values)), np.int64, len(values))


def join_groups(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the merged groups of two groupings, each group numbered by its first row.

    If a and b are grouped in one, and b and c in the other, all three are in one group.

    Args:
        one, other: int64 [n], results of the functions above.
    """
    leader = one.tolist()  # each points to itself or to an earlier one
    for i, first in enumerate(other.tolist()):
        a, b = find_leader(leader, i), find_leader(leader, first)
        leader[max(a, b)] = min(a, b)
    return np.array([find_leader(leader, i) for i in range(len(leader))], np.int64)


def group_sizes(groups: np.ndarray) -> list[int]:
    """Returns the number of rows of each group; `groups` is int [n], equal for rows of one group."""
    return np.unique(groups, return_counts=True)[1].tolist()
