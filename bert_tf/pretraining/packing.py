"""Sequence packing: puts several short examples into one row to reduce padding."""

import numpy as np

from bert_tf.data.best_fit import Placement, assign_rows
from bert_tf.data.ragged import ranges

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

    `best_fit.py` decides which row an example goes into. Examples keep their order within a row, and rows are sorted by
    their longest examples.

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
    _check(predictions, max_predictions, max_sentences)
    row = assign_rows(lengths, width, max_sentences, predictions, max_predictions)
    into = Placement(row)
    begin = into.before(lengths)
    number = into.before(np.ones(n, np.int64))
    sentences = np.broadcast_to(number[:, None] + 1, (n, width))
    packed = _place(into, {name: rows[name] for name in _TOKENS} | {"sentence_ids": sentences}, lengths, width)
    padding = rows["input_ids"][rows["input_mask"] == 0][:1]  # empty if all rows are full; then no padding is needed
    np.copyto(packed["input_ids"], padding if len(padding) else 0, where=packed["input_mask"] == 0)
    if "masked_lm_weights" in rows:
        features = {name: rows[name] for name in _PREDICTIONS}
        features["masked_lm_positions"] = features["masked_lm_positions"] + begin[:, None]
        packed |= _place(into, features, predictions, max_predictions)
    if "next_sentence_labels" in rows:
        features = {"positions": begin[:, None], "labels": rows["next_sentence_labels"], "weights": np.ones((n, 1))}
        features = {f"next_sentence_{name}": values for name, values in features.items()}
        packed |= _place(into, features, np.ones(n, np.int64), max_sentences)
    return packed


def _place(into, features, counts, width):
    """Returns {name: [rows, width]} with the first `counts` (int64 [n]) values of each row of {name: [n, any]}."""
    shape, column = (into.num_rows, width), np.arange(next(iter(features.values())).shape[1])
    types = {name: np.float32 if name.endswith("weights") else np.int32 for name in features}
    placed = {name: np.zeros(shape, types[name]) for name in features}
    starts = into.row * width + into.before(counts)
    for some in (slice(start, start + _AT_ONCE) for start in range(0, len(counts), _AT_ONCE)):
        used = column < counts[some, None]
        to = ranges(starts[some], counts[some])
        for name, values in features.items():
            placed[name].ravel()[to] = values[some][used]
    return placed


def _check(predictions, max_predictions, max_sentences):
    if max_sentences < 1:
        raise ValueError(f"A packed sequence must contain at least 1 example; got max_sentences {max_sentences}.")
    if predictions.max(initial=0) > max_predictions:
        raise ValueError(
            f"A packed sequence must have room for the predictions of each example; got {predictions.max()} "
            f"predictions and room for {max_predictions}; raise `max_predictions_per_seq`."
        )
