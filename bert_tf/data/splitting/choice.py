"""Which part each row goes to: parts of the sizes asked for, with every label's rows shared out as all rows are."""

import collections
from collections.abc import Sequence

import numpy as np

_EXACT = 1e-9  # what is so near to a whole number is one
_ROUNDS = 100  # after which the rows and columns of a table fit their sums well enough to be rounded


def choose(units: np.ndarray, strata: np.ndarray, shares: Sequence[float], seed: int) -> np.ndarray:
    """Returns int64 [n]: the part of each row, from 0; no part is empty.

    Units of several rows come first, the largest of all before the others: each goes where it leaves the parts nearest
    to what they should have of every label and in all (least chi-square). Single rows fill up what is missing then, by
    largest remainders. Chance, which the seed decides, has its say among units of one size and rows of one label.

    Args:
        units: int [n], equal for rows that must stay together; at least as many different ones as there are parts.
        strata: int [n], from 0: the label of each row.
        shares: of the parts, which sum to 1.
        seed: for what chance decides.
    """
    rng, shares = np.random.default_rng(seed), np.asarray(shares)
    unit_of = np.unique(units, return_inverse=True)[1]
    sizes = np.bincount(unit_of)
    members = np.split(np.argsort(unit_of, kind="stable"), np.cumsum(sizes)[:-1])
    order = rng.permutation(len(sizes))
    large = order[sizes[order] > 1]
    large = large[np.argsort(-sizes[large], kind="stable")]
    expected = np.outer(np.bincount(strata), shares)
    part, held = _place([strata[members[i]].tolist() for i in large], expected)
    parts = np.full(len(sizes), -1)
    parts[large] = part
    single = order[sizes[order] == 1]
    of_single = strata[[members[i][0] for i in single]] if len(single) else np.zeros(0, int)
    quotas = _quotas(expected, held, np.bincount(of_single, minlength=len(expected)), rng)
    by_label = single[np.argsort(of_single, kind="stable")]
    parts[by_label] = np.repeat(np.tile(np.arange(len(shares)), len(expected)), quotas.ravel())
    _fill_empty(parts, sizes, order, len(shares))
    return parts[unit_of]


def _place(units, expected):
    """Returns the part of each unit, given as its rows' labels, and float [labels, parts]: how many rows are there."""
    labels, parts = expected.shape
    held, aims = np.zeros([labels + 1, parts]).tolist(), np.vstack([expected, expected.sum(0)]).tolist()
    chosen = []
    for rows in units:
        counts = [*collections.Counter(rows).items(), (labels, len(rows))]  # in the last place those of all labels
        costs = [sum(_rise(n, held[k][part], aims[k][part]) for k, n in counts) for part in range(parts)]
        chosen.append(costs.index(min(costs)))
        for k, n in counts:
            held[k][chosen[-1]] += n
    return chosen, np.array(held[:-1])


def _rise(count, held, aim):
    """By how much (held - aim)^2 / aim grows when `count` rows are added."""
    return count * (count + 2 * (held - aim)) / aim


def _quotas(expected, held, rows, rng):
    """Returns int [labels, parts]: how many single rows of each label each part gets; `rows`: how many there are."""
    if not rows.sum():
        return np.zeros(expected.shape, int)
    missing = np.maximum(expected - held, 0)
    missing[missing.sum(1) == 0] = expected[missing.sum(1) == 0]
    wanted = np.maximum(largest_remainders(expected.sum(0)) - held.sum(0), 0)
    columns = largest_remainders(wanted * rows.sum() / wanted.sum())
    return _rounded(_fitted(missing, rows, columns), rows, columns, rng)


def largest_remainders(values: np.ndarray) -> np.ndarray:
    """Returns int: values whose sum is a whole number, rounded so that the sum stays; of equal ones the first up."""
    whole = np.floor(values + _EXACT).astype(int)
    up = np.argsort(-np.round(values - whole, 9), kind="stable")[: round(values.sum()) - whole.sum()]
    whole[up] += 1
    return whole


def _fitted(table, rows, columns):
    """Returns a table stretched, row by row and column by column, until both have about these sums (raking)."""
    for _ in range(_ROUNDS):
        table = table * (columns / np.maximum(table.sum(0), _EXACT))
        table = table * (rows / np.maximum(table.sum(1), _EXACT))[:, None]
    return table


def _rounded(table, rows, columns, rng):
    """Returns the table as whole numbers with these sums: the largest remainders are rounded up while there is room."""
    whole = np.floor(table + _EXACT).astype(int)
    remainders = np.round(table - whole, 9).ravel()
    order = np.lexsort((rng.random(remainders.size), -remainders)).tolist()
    of_rows, of_columns = rows - whole.sum(1), columns - whole.sum(0)
    for most in (1, int(rows.max())):  # what one row up in each place leaves over goes where there is room
        for row, column in (divmod(place, table.shape[1]) for place in order):
            more = max(0, min(most, of_rows[row], of_columns[column]))
            whole[row, column] += more
            of_rows[row] -= more
            of_columns[column] -= more
    return whole


def _fill_empty(parts, sizes, order, count):
    """Gives each part without a unit the smallest one of the part that has the most units."""
    for empty in set(range(count)) - set(parts.tolist()):
        richest = np.bincount(parts, minlength=count).argmax()
        those = order[parts[order] == richest]
        parts[those[sizes[those].argmin()]] = empty
