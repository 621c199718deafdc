"""Packed rows to rows of one example each, and the other way round: a model takes one or the other.

    input_ids      [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .        one packed row of two examples
    sentence_ids     1    1    1     2    2   2    2    0

    input_ids      [CLS]  a  [SEP]   .    .   .    .    .        two rows
                   [CLS]  b    b   [SEP]  .   .    .    .

`pretraining/corpus/packing.py` has all the features.
"""

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES


def as_packed(batch: dict) -> dict:
    """Returns a batch of rows of one example as packed rows with one in each, in the graph.

    Args:
        batch: {name: [B, ...]}, "input_mask" [B, S] among them; with "next_sentence_labels" int32 [B, 1] or without.

    Returns:
        The batch with "sentence_ids" int32 [B, S], and where there are labels "next_sentence_positions" int32 [B, 1]
        and "next_sentence_weights" float32 [B, 1].
    """
    packed = batch | {"sentence_ids": batch["input_mask"]}
    if "next_sentence_labels" in batch:
        labels = batch["next_sentence_labels"]
        packed |= {"next_sentence_positions": tf.zeros_like(labels)}
        packed |= {"next_sentence_weights": tf.ones_like(labels, tf.float32)}
    return packed


def unpacked(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turns batches of packed rows into single rows of one example each, {name: [...]} as rows are that never were."""
    spec = dataset.element_spec
    names = sorted(spec.keys() - {"sentence_ids", "next_sentence_positions", "next_sentence_weights"})
    widths = {name: 1 if FEATURES[name].per == "sentence" else spec[name].shape[1] for name in names}

    def unpack_arrays(*values):
        rows = unpack(dict(zip(sorted(spec), values, strict=True)))
        return [rows[name] for name in names]

    def unpack_batch(batch):
        types = [FEATURES[name].dtype for name in names]
        arrays = tf.numpy_function(unpack_arrays, [batch[name] for name in sorted(spec)], types, stateful=False)
        return {
            name: tf.ensure_shape(array, [None, widths[name]]) for name, array in zip(names, arrays, strict=True)
        }

    return dataset.map(unpack_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()


def unpack(rows: dict) -> dict:
    """Gives each example of packed rows a row of its own.

    Args:
        rows: {name: array [r, ...]} as `corpus.packing.pack` returns them.

    Returns:
        {name: array [n, ...]} of the n examples in their order, without the features that only packed rows have. Rows
        are as wide as they were.
    """
    ids, sentences = rows["input_ids"], rows["sentence_ids"]
    width = ids.shape[1]
    before = np.pad(sentences, [(0, 0), (1, 0)])[:, :-1]
    row, start = np.nonzero((sentences != before) & (sentences > 0))
    length = (sentences[row] == sentences[row, start][:, None]).sum(1)
    place = np.arange(width)
    real = place < length[:, None]
    source = np.minimum(start[:, None] + place, width - 1)
    padding = ids[rows["input_mask"] == 0][:1]  # none if all rows are full
    padding = padding[0] if len(padding) else 0
    examples = {
        "input_ids": np.where(real, ids[row[:, None], source], padding),
        "input_mask": real,
        "segment_ids": rows["segment_ids"][row[:, None], source] * real,
    }
    if "masked_lm_ids" in rows:
        examples |= _predictions(rows, row, start, length)
    if "next_sentence_labels" in rows:
        mine = (rows["next_sentence_positions"][row] == start[:, None]) & (rows["next_sentence_weights"][row] > 0)
        examples["next_sentence_labels"] = (rows["next_sentence_labels"][row] * mine).sum(1, keepdims=True)
    return {name: values.astype(FEATURES[name].dtype) for name, values in examples.items()}


def _predictions(rows, row, start, length):
    """Returns the predictions of each example, [n, M], those of its packed row that lie in it moved to the front."""
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
