"""Best fit: puts examples into the fewest rows of a limited length."""

import numpy as np

from bert_tf.data.ragged import splits_of


def assign_rows(lengths, width: int, max_examples: int, items=None, max_items: int = 0) -> np.ndarray:
    """Returns the row that each of n examples is put into, int64 [n], for rows of `width` tokens.

    Best fit, the longest examples first: each goes into the row where it leaves the least room. All examples of one
    size are placed at once, as in longest-pack-first histogram packing (Krell et al., arXiv 2107.02027). Nothing is
    random. Rows are numbered in the order of their longest examples.

    Args:
        lengths: numbers of tokens, int [n], at most `width`.
        width: maximum number of tokens per row.
        max_examples: maximum number of examples per row.
        items: numbers of other things of which a row has room for `max_items`, int [n], such as masked tokens; None:
            there are none.
        max_items: maximum number of items per row.
    """
    items = np.zeros(len(lengths), np.int64) if items is None else items
    code = lengths * (max_items + 1) + items  # one number for all examples of the same size
    order = np.argsort(-code, kind="stable")
    kinds, starts = np.unique(-code[order], return_index=True)
    row = np.empty(len(lengths), np.int64)
    # rows[free tokens][free items, free examples] = the rows with these: initially all of them are empty
    rows = [{} for _ in range(width + 1)]
    rows[width][max_items, max_examples] = list(range(len(lengths)))
    for kind, examples in zip((-kinds).tolist(), np.split(order, starts)[1:], strict=True):
        _place(examples, *divmod(kind, max_items + 1), rows, row)
    return _renumber(row, lengths)


def _place(examples, length, items, rows, row):
    """Places examples of the same size in the fullest rows with room: sets `row`, and updates `rows`."""
    for room in range(length, len(rows)):
        for free, left in list(rows[room]):
            # With one more example, the fullest row with room is still the fullest: it takes as many as fit.
            each = min(len(examples), room // length, left, free // items if items else left)
            same = rows[room][free, left]
            while each and same:
                number = min(len(same), len(examples) // each)
                targets = same[-number:]
                del same[-number:]
                placed, examples = np.split(examples, [number * each])
                row[placed] = np.repeat(targets, each)
                after = rows[room - each * length].setdefault((free - each * items, left - each), [])
                after.extend(targets)
                each = min(each, len(examples))
            if not same:
                del rows[room][free, left]
            if not len(examples):
                return


def _renumber(row, lengths):
    """Numbers the rows in the order of their longest examples, the first if equal."""
    order = np.lexsort((-lengths, row))
    used, first = np.unique(row[order], return_index=True)
    number = np.empty(len(row), np.int64)
    number[used] = np.argsort(np.argsort(order[first]))
    return number[row]


class Placement:
    """Places the values of examples side by side in their rows.

    Attributes:
        row: the row of each example, int64 [n].
        num_rows: the number of rows.
    """

    def __init__(self, row):
        self.row = row
        self.num_rows = row.max(initial=-1) + 1
        self._order = np.argsort(row, kind="stable")
        self._first = np.searchsorted(row, np.arange(self.num_rows), sorter=self._order)

    def before(self, counts) -> np.ndarray:
        """Returns the offset of each example's values in its row, int64 [n], if examples have `counts` values."""
        total = splits_of(counts[self._order])[:-1]
        before = np.empty_like(total)
        before[self._order] = total - total[self._first][self.row[self._order]]
        return before
