"""Sequence packing: puts several short examples into one row to reduce padding."""

import numpy as np

from bert_tf.data.ragged import ranges, splits_of

_TOKENS = ("input_ids", "input_mask", "segment_ids")
_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_AT_ONCE = 1024  # examples to move together, so that their indices stay in the processor's cache


def pack_examples(rows: dict, max_predictions: int, max_sentences: int) -> dict:
    """Packs n examples into fewer rows of the same length S; M is max_predictions, E is max_sentences.

        input_ids                [CLS]  a  [SEP]  .    .    .        [CLS]  b   b  [SEP]  .    .       two examples
        masked_lm_positions        1    .                              2    .
        next_sentence_labels       0                                   1

        input_ids                [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .      one row
        sentence_ids               1    1    1     2    2   2    2    0      attention is limited to an example, and
        positions
        masked_lm_positions        1    5                                    restart: see bert_tf.models.encoder
        next_sentence_positions    0    3                                    the position of each [CLS]
        next_sentence_labels       0    1
        next_sentence_weights      1    1

    Best fit, the longest examples first: each goes into the row where it leaves the least room. All examples of one
    length are placed at once, as in longest-pack-first histogram packing (Krell et al., arXiv 2107.02027). Nothing is
    random. Examples keep their order within a row, and rows are sorted by their longest examples.

    Args:
        rows: "input_ids", "input_mask" (ones, then zeros), "segment_ids": int [n, S]; if there are masks,
            "masked_lm_positions", "masked_lm_ids", "masked_lm_weights" [n, any]; if there are labels,
            "next_sentence_labels" int [n, 1].
        max_predictions: maximum number of predictions per row.
        max_sentences: maximum number of examples per row.

    Returns:
        For r rows "input_ids", with the same padding, "input_mask", "segment_ids", "sentence_ids": int32 [r, S]; with
        masks "masked_lm_positions", "masked_lm_ids": int32, "masked_lm_weights": float32 [r, M]; with labels
        "next_sentence_positions", "next_sentence_labels": int32, "next_sentence_weights": float32 [r, E].

    Raises:
        ValueError: max_sentences is less than 1, or an example has more predictions than max_predictions.
    """
    n, width = rows["input_ids"].shape
    lengths = rows["input_mask"].sum(axis=1, dtype=np.int64)
    predictions = np.zeros(n, np.int64)
    if "masked_lm_weights" in rows:
        predictions = np.count_nonzero(rows["masked_lm_weights"], axis=1)
    row = _assign(lengths, predictions, width, max_predictions, max_sentences)
    into = _Placement(row)
    begin = into.before(lengths)
    number = into.before(np.ones(n, np.int64))
    sentences = np.broadcast_to(number[:, None] + 1, (n, width))
    packed = into.place({name: rows[name] for name in _TOKENS} | {"sentence_ids": sentences}, lengths, width)
    padding = rows["input_ids"][rows["input_mask"] == 0][:1]  # empty if all rows are full; then no padding is needed
    np.copyto(packed["input_ids"], padding if len(padding) else 0, where=packed["input_mask"] == 0)
    if "masked_lm_weights" in rows:
        features = {name: rows[name] for name in _PREDICTIONS}
        features["masked_lm_positions"] = features["masked_lm_positions"] + begin[:, None]
        packed |= into.place(features, predictions, max_predictions)
    if "next_sentence_labels" in rows:
        features = {"positions": begin[:, None], "labels": rows["next_sentence_labels"], "weights": np.ones((n, 1))}
        features = {f"next_sentence_{name}": values for name, values in features.items()}
        packed |= into.place(features, np.ones(n, np.int64), max_sentences)
    return packed


class _Placement:
    """Places the values of examples side by side in their rows, given the row of each example, int64 [n]."""

    def __init__(self, row):
        self._row = row
        self._order = np.argsort(row, kind="stable")
        self._first = np.searchsorted(row, np.arange(row.max(initial=-1) + 1), sorter=self._order)

    def before(self, counts):
        """Returns the offset of each example's values in its row, int64 [n], if examples have `counts` values."""
        total = splits_of(counts[self._order])[:-1]
        before = np.empty_like(total)
        before[self._order] = total - total[self._first][self._row[self._order]]
        return before

    def place(self, features, counts, width):
        """Returns {name: [rows, width]} with the first `counts` (int64 [n]) values of each row of {name: [n, any]}."""
        shape, column = (len(self._first), width), np.arange(next(iter(features.values())).shape[1])
        types = {name: np.float32 if name.endswith("weights") else np.int32 for name in features}
        placed = {name: np.zeros(shape, types[name]) for name in features}
        starts = self._row * width + self.before(counts)
        for some in (slice(start, start + _AT_ONCE) for start in range(0, len(counts), _AT_ONCE)):
            used = column < counts[some, None]
            to = ranges(starts[some], counts[some])
            for name, values in features.items():
                placed[name].ravel()[to] = values[some][used]
        return placed


def _assign(lengths, predictions, width, max_predictions, max_sentences):
    """Returns the row of each example, int64 [n], given its numbers of tokens and predictions (int64 [n])."""
    _check(predictions, max_predictions, max_sentences)
    code = lengths * (max_predictions + 1) + predictions  # one number for all examples of the same size
    order = np.argsort(-code, kind="stable")
    kinds, starts = np.unique(-code[order], return_index=True)
    row = np.empty(len(lengths), np.int64)
    # rows[free tokens][free predictions, free examples] = the rows with these: initially all of them are empty
    rows = [{} for _ in range(width + 1)]
    rows[width][max_predictions, max_sentences] = list(range(len(lengths)))
    for kind, examples in zip((-kinds).tolist(), np.split(order, starts)[1:], strict=True):
        _place(examples, *divmod(kind, max_predictions + 1), rows, row)
    return _renumber(row, lengths)


def _check(predictions, max_predictions, max_sentences):
    if max_sentences < 1:
        raise ValueError(f"A packed sequence must hold at least 1 example. Received max_sentences {max_sentences}.")
    if predictions.max(initial=0) > max_predictions:
        raise ValueError(
            f"A packed sequence must have room for all predictions of an example. Received {predictions.max()} and "
            f"max_predictions {max_predictions}; raise `max_predictions_per_seq`."
        )


def _place(examples, length, predictions, rows, row):
    """Places examples of the same size in the fullest rows with room: sets `row`, and updates `rows`."""
    for room in range(length, len(rows)):
        for free, left in list(rows[room]):
            # With one more example, the fullest row with room is still the fullest: it takes as many as fit.
            each = min(len(examples), room // length, left, free // predictions if predictions else left)
            same = rows[room][free, left]
            while each and same:
                number = min(len(same), len(examples) // each)
                targets = same[-number:]
                del same[-number:]
                placed, examples = np.split(examples, [number * each])
                row[placed] = np.repeat(targets, each)
                after = rows[room - each * length].setdefault((free - each * predictions, left - each), [])
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
