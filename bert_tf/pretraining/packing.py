"""Sequence packing: puts several short examples into one row to reduce padding; and unpacking."""

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES
from bert_tf.data.ragged import ranges, splits_of

# === Packing ===


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


# === Unpacking ===
# Conversion between packed rows and rows of one example: a model requires one or the other.
#
#     input_ids      [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .        one packed row of two examples
#     sentence_ids     1    1    1     2    2   2    2    0
#
#     input_ids      [CLS]  a  [SEP]   .    .   .    .    .        two rows
#                    [CLS]  b    b   [SEP]  .   .    .    .


def to_packed_rows(batch: dict) -> dict:
    """Converts a batch of single-example rows to packed rows with one example each, in the graph.

    Args:
        batch: {name: [B, ...]} with "input_mask" [B, S] and optionally "next_sentence_labels" int32 [B, 1].

    Returns:
        The batch with "sentence_ids" int32 [B, S]; if there are labels, also with "next_sentence_positions" int32
        [B, 1] and "next_sentence_weights" float32 [B, 1].
    """
    packed = batch | {"sentence_ids": batch["input_mask"]}
    if "next_sentence_labels" in batch:
        labels = batch["next_sentence_labels"]
        packed |= {"next_sentence_positions": tf.zeros_like(labels)}
        packed |= {"next_sentence_weights": tf.ones_like(labels, tf.float32)}
    return packed


def unpack_dataset(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Unpacks a dataset of batches of packed rows to a dataset of single-example rows {name: [...]}."""
    spec = dataset.element_spec
    names = sorted(spec.keys() - {"sentence_ids", "next_sentence_positions", "next_sentence_weights"})
    widths = {name: 1 if FEATURES[name].per == "sentence" else spec[name].shape[1] for name in names}

    def unpack_arrays(*values):
        rows = unpack_rows(dict(zip(sorted(spec), values, strict=True)))
        return [rows[name] for name in names]

    def unpack_batch(batch):
        types = [FEATURES[name].dtype for name in names]
        arrays = tf.numpy_function(unpack_arrays, [batch[name] for name in sorted(spec)], types, stateful=False)
        return {name: tf.ensure_shape(array, [None, widths[name]]) for name, array in zip(names, arrays, strict=True)}

    return dataset.map(unpack_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()


def unpack_rows(rows: dict) -> dict:
    """Unpacks packed rows to one row per example.

    Args:
        rows: {name: array [r, ...]} as returned by `pack_examples`.

    Returns:
        {name: array [n, ...]} of the n examples in order, without the features that only packed rows have. The length
        of rows is unchanged.
    """
    ids, sentences = rows["input_ids"], rows["sentence_ids"]
    width = ids.shape[1]
    before = np.pad(sentences, [(0, 0), (1, 0)])[:, :-1]
    row, start = np.nonzero((sentences != before) & (sentences > 0))
    length = (sentences[row] == sentences[row, start][:, None]).sum(1)
    place = np.arange(width)
    real = place < length[:, None]
    source = np.minimum(start[:, None] + place, width - 1)
    padding = ids[rows["input_mask"] == 0][:1]  # empty if all rows are full
    padding = padding[0] if len(padding) else 0
    examples = {
        "input_ids": np.where(real, ids[row[:, None], source], padding),
        "input_mask": real,
        "segment_ids": rows["segment_ids"][row[:, None], source] * real,
    }
    if "masked_lm_ids" in rows:
        examples |= _unpack_predictions(rows, row, start, length)
    if "next_sentence_labels" in rows:
        mine = (rows["next_sentence_positions"][row] == start[:, None]) & (rows["next_sentence_weights"][row] > 0)
        examples["next_sentence_labels"] = (rows["next_sentence_labels"][row] * mine).sum(1, keepdims=True)
    return {name: values.astype(FEATURES[name].dtype) for name, values in examples.items()}


def _unpack_predictions(rows, row, start, length):
    """Returns the predictions of each example, [n, M], selected from its packed row and moved to the front."""
    positions = rows["masked_lm_positions"][row] - start[:, None]
    mine = (positions >= 0) & (positions < length[:, None]) & (rows["masked_lm_weights"][row] > 0)
    order = np.argsort(~mine, axis=1, kind="stable")

    def in_front(values):
        return np.take_along_axis(values * mine, order, axis=1)

    return {
        "masked_lm_positions": in_front(positions),
        "masked_lm_ids": in_front(rows["masked_lm_ids"][row]),
        "masked_lm_weights": in_front(rows["masked_lm_weights"][row]),
    }
