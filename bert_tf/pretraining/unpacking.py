"""Conversion between packed rows and rows of one example: a model requires one or the other.

    input_ids      [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .        one packed row of two examples
    sentence_ids     1    1    1     2    2   2    2    0

    input_ids      [CLS]  a  [SEP]   .    .   .    .    .        two rows
                   [CLS]  b    b   [SEP]  .   .    .    .
"""

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES


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
