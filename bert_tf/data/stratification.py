"""Stratified assignment of rows to parts of given sizes: each label is as frequent as in the whole table."""

import collections
from collections.abc import Sequence

import numpy as np

_EXACT = 1e-9  # tolerance for integers
_ROUNDS = 100  # after which the sums of rows and columns are accurate enough for rounding


# scikit-learn has no splitter for this. GroupShuffleSplit does not stratify and counts groups instead of rows,
# StratifiedShuffleSplit has no groups, and StratifiedGroupKFold only makes equal folds: it takes 12 s for 50,000 rows
# (0.1 s here), and more than 400 s for a million (3 s here).
def assign_parts(units: np.ndarray, strata: np.ndarray, shares: Sequence[float], seed: int) -> np.ndarray:
    """Assigns each row to a part, and returns its index, int64 [n]; no part is empty.

    Units of several rows come first, in decreasing size: each is assigned so that the parts are nearest to their
    expected counts, per label and in total (least chi-square). Single rows then fill the remaining counts, by largest
    remainders. Ties between units of one size and rows of one label are broken at random, given the seed.

    Args:
        units: int [n], equal for rows that must stay together; at least as many distinct values as parts.
        strata: int [n], from 0: the label of each row.
        shares: fractions of the parts, which sum to 1.
        seed: seed of random choices.
    """
    rng, shares = np.random.default_rng(seed), np.asarray(shares)
    unit_of = np.unique(units, return_inverse=True)[1]
    sizes = np.bincount(unit_of)
    members = np.split(np.argsort(unit_of, kind="stable"), np.cumsum(sizes)[:-1])
    order = rng.permutation(len(sizes))
    large = order[sizes[order] > 1]
    large = large[np.argsort(-sizes[large], kind="stable")]
    expected = np.outer(np.bincount(strata), shares)
    part, held = _assign_large_units([strata[members[i]].tolist() for i in large], expected)
    parts = np.full(len(sizes), -1)
    parts[large] = part
    single = order[sizes[order] == 1]
    of_single = strata[[members[i][0] for i in single]] if len(single) else np.zeros(0, int)
    quotas = _quotas(expected, held, np.bincount(of_single, minlength=len(expected)), rng)
    by_label = single[np.argsort(of_single, kind="stable")]
    parts[by_label] = np.repeat(np.tile(np.arange(len(shares)), len(expected)), quotas.ravel())
    _fill_empty(parts, sizes, order, len(shares))
    return parts[unit_of]


def _assign_large_units(units, expected):
    """Returns the part of each unit (given as its rows' labels), and the resulting counts, float [labels, parts]."""
    labels, parts = expected.shape
    held, aims = np.zeros([labels + 1, parts]).tolist(), np.vstack([expected, expected.sum(0)]).tolist()
    chosen = []
    for rows in units:
        counts = [*collections.Counter(rows).items(), (labels, len(rows))]  # the last position counts all labels
        # The increase of (held - aim)^2 / aim if these are added.
        rises = [[n * (n + 2 * (held[k][p] - aims[k][p])) / aims[k][p] for k, n in counts] for p in range(parts)]
        costs = list(map(sum, rises))
        chosen.append(costs.index(min(costs)))
        for k, n in counts:
            held[k][chosen[-1]] += n
    return chosen, np.array(held[:-1])


def _quotas(expected, held, rows, rng):
    """Returns the number of single rows per label and part, int [labels, parts]; `rows` are the numbers available."""
    if not rows.sum():
        return np.zeros(expected.shape, int)
    missing = np.maximum(expected - held, 0)
    missing[missing.sum(1) == 0] = expected[missing.sum(1) == 0]
    wanted = np.maximum(largest_remainders(expected.sum(0)) - held.sum(0), 0)
    columns = largest_remainders(wanted * rows.sum() / wanted.sum())
    return _round_table(_rake(missing, rows, columns), rows, columns, rng)


def largest_remainders(values: np.ndarray) -> np.ndarray:
    """Rounds values with an integer sum, keeping the sum (largest remainders; of ties, the first is rounded up)."""
    whole = np.floor(values + _EXACT).astype(int)
    up = np.argsort(-np.round(values - whole, 9), kind="stable")[: round(values.sum()) - whole.sum()]
    whole[up] += 1
    return whole


def _rake(table, rows, columns):
    """Scales the rows and columns of a table until both have approximately these sums (raking)."""
    for _ in range(_ROUNDS):
        table = table * (columns / np.maximum(table.sum(0), _EXACT))
        table = table * (rows / np.maximum(table.sum(1), _EXACT))[:, None]
    return table


def _round_table(table, rows, columns, rng):
    """Rounds a table to integers with these sums: the largest remainders are rounded up where the sums allow."""
    whole = np.floor(table + _EXACT).astype(int)
    remainders = np.round(table - whole, 9).ravel()
    order = np.lexsort((rng.random(remainders.size), -remainders)).tolist()
    of_rows, of_columns = rows - whole.sum(1), columns - whole.sum(0)
    for most in (1, int(rows.max())):  # the remainder after one row per place is put where there is room
        for row, column in (divmod(index, table.shape[1]) for index in order):
            more = max(0, min(most, of_rows[row], of_columns[column]))
            whole[row, column] += more
            of_rows[row] -= more
            of_columns[column] -= more
    return whole


def _fill_empty(parts, sizes, order, count):
    """Moves to each empty part the smallest unit of the part with the most units."""
    for empty in set(range(count)) - set(parts.tolist()):
        richest = np.bincount(parts, minlength=count).argmax()
        those = order[parts[order] == richest]
        parts[those[sizes[those].argmin()]] = empty
