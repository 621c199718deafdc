"""Layers for examples with several sequences: they are flattened before the encoder and regrouped after the head.

The sequences are the windows of a long text, the choices of a question, or the texts to be compared.
"""

import keras
import tensorflow as tf

from bert_tf.models.layers import ConfiguredLayer


class _Windows(ConfiguredLayer):
    def __init__(self, every=False, **kwargs):
        super().__init__(autocast=False, **kwargs)  # Keras would round the float32 logits to the compute dtype
        self.every = every


@keras.saving.register_keras_serializable("bert_tf")
class TakeWindows(_Windows):
    """Flattens the windows of all texts into one batch and drops empty ones.

        input_mask   [[1 1 1], [1 1 0]],        ->    [1 1 1], [1 1 0], [1 0 0]
                     [[1 0 0], [0 0 0]]               windows of padding only are dropped

    Args:
        every: whether to keep empty windows; XLA needs this, because dropout masks require a static number of
            sequences.

    Input: a dict of int32 [B, N, S] that includes `input_mask`. Output: the same names, int32 [W, S], the W windows
    whose mask contains a 1, in order; with `every`, W is B * N.
    """

    def call(self, features):
        if self.every:
            return {name: tf.reshape(values, _flat_shape(values)) for name, values in features.items()}
        at = tf.where(_there(features["input_mask"]))
        return {name: tf.gather_nd(values, at) for name, values in features.items()}

    def compute_output_spec(self, features):
        return {name: keras.KerasTensor((None, values.shape[-1]), values.dtype) for name, values in features.items()}


@keras.saving.register_keras_serializable("bert_tf")
class MeanOfWindows(_Windows):
    """Averages the logits of a text's windows.

    It averages logits rather than probabilities: a confident window weighs more than an undecided one, and the result
    is a logit again, for the same loss and softmax as for a text with one window.

    Args:
        every: as for the preceding `TakeWindows`.

    Inputs: `values` float32 [W, L] of the windows that `TakeWindows` kept, and its `input_mask` int32 [B, N, S].
    Output: float32 [B, L]; 0 for a text without a window.
    """

    def call(self, values, input_mask):
        values, there = _together(values, input_mask, self.every)
        total = tf.reduce_sum(values, axis=1)
        return total / tf.maximum(tf.reduce_sum(tf.cast(there, tf.float32), axis=1)[:, tf.newaxis], 1.0)

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((input_mask.shape[0], values.shape[-1]), "float32")


@keras.saving.register_keras_serializable("bert_tf")
class RowsTogether(_Windows):
    """Regroups the outputs of all sequences by example.

    Args:
        every: as for the preceding `TakeWindows`.
        missing: value for sequences that an example lacks.

    Inputs: `values` float32 [W, L] of the sequences that `TakeWindows` kept, and its `input_mask` int32 [B, N, S].
    Output: float32 [B, N, L].
    """

    def __init__(self, every=False, missing=0.0, **kwargs):
        super().__init__(every, **kwargs)
        self.missing = missing

    def call(self, values, input_mask):
        values, there = _together(values, input_mask, self.every)
        return tf.where(there[:, :, tf.newaxis], values, self.missing) if self.missing else values

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((*input_mask.shape[:2], values.shape[-1]), "float32")


def _flat_shape(values):
    """Returns the shape [B N, S] for a reshape of values [B, N, S]."""
    rows = values.shape[:2].num_elements()
    return [-1, tf.shape(values)[2]] if rows is None else [rows, -1]


def _together(values, input_mask, every):
    """Returns `values` [W, L] as [B, N, L], with 0 for missing sequences, and which ones exist, bool [B, N]."""
    there = _there(input_mask)
    shape = tf.concat([tf.shape(there), tf.shape(values)[1:]], 0)
    if every:
        values = tf.where(there[:, :, tf.newaxis], tf.reshape(values, shape), 0.0)
    else:  # all indices are distinct
        values = tf.scatter_nd(tf.cast(tf.where(there), tf.int32), values, shape)
    return values, there


def _there(input_mask):
    """Returns which windows of the mask [B, N, S] are not empty, bool [B, N]."""
    return tf.reduce_any(input_mask > 0, axis=2)
