"""Several rows of an example on their way through a model of rows: apart before the encoder, together after the head.

The rows are the windows of a long text, the choices of a question, or the texts that are compared.
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
    """Lays the windows of all texts one below the other, and leaves out those that are none.

        input_mask   [[1 1 1], [1 1 0]],        ->    [1 1 1], [1 1 0], [1 0 0]
                     [[1 0 0], [0 0 0]]               no work is done for the window that is all padding

    Args:
        every: leave out none. XLA, which must know how many rows there are to draw dropout's masks, needs it so.

    Input: a dict of int32 [B, N, S], `input_mask` among them. Output: the same names, int32 [W, S], the W windows whose
    mask has a 1, in order; with `every` W is B * N.
    """

    def call(self, features):
        if self.every:
            return {name: tf.reshape(values, [-1, tf.shape(values)[2]]) for name, values in features.items()}
        at = tf.where(_there(features["input_mask"]))
        return {name: tf.gather_nd(values, at) for name, values in features.items()}

    def compute_output_spec(self, features):
        return {name: keras.KerasTensor((None, values.shape[-1]), values.dtype) for name, values in features.items()}


@keras.saving.register_keras_serializable("bert_tf")
class MeanOfWindows(_Windows):
    """Averages what the windows of a text gave.

    Of logits, not of probabilities: a window that is sure weighs more than one that says nothing, and what comes out is
    a logit again, for the same loss and the same softmax as of a text that has one window.

    Args:
        every: as of the `TakeWindows` before it.

    Inputs: `values` float32 [W, L] of the windows that `TakeWindows` took, and the `input_mask` int32 [B, N, S] that it
    took them by. Output: float32 [B, L]; 0 for a text without a window.
    """

    def call(self, values, input_mask):
        values, there = _together(values, input_mask, self.every)
        total = tf.reduce_sum(values, axis=1)
        return total / tf.maximum(tf.reduce_sum(tf.cast(there, tf.float32), axis=1)[:, tf.newaxis], 1.0)

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((input_mask.shape[0], values.shape[-1]), "float32")


@keras.saving.register_keras_serializable("bert_tf")
class RowsTogether(_Windows):
    """Gives every example what its rows gave, one below the other.

    Args:
        every: as of the `TakeWindows` before it.
        missing: what stands for a row that an example does not have.

    Inputs: `values` float32 [W, L] of the rows that `TakeWindows` took, and the `input_mask` int32 [B, N, S] that it
    took them by. Output: float32 [B, N, L].
    """

    def __init__(self, every=False, missing=0.0, **kwargs):
        super().__init__(every, **kwargs)
        self.missing = missing

    def call(self, values, input_mask):
        values, there = _together(values, input_mask, self.every)
        return tf.where(there[:, :, tf.newaxis], values, self.missing) if self.missing else values

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((*input_mask.shape[:2], values.shape[-1]), "float32")


def _together(values, input_mask, every):
    """Returns `values` [W, L] as [B, N, L], with 0 where no row is; and where one is, bool [B, N]."""
    there = _there(input_mask)
    shape = tf.concat([tf.shape(there), tf.shape(values)[1:]], 0)
    if every:
        values = tf.where(there[:, :, tf.newaxis], tf.reshape(values, shape), 0.0)
    else:  # no two rows have the same index
        values = tf.scatter_nd(tf.cast(tf.where(there), tf.int32), values, shape)
    return values, there


def _there(input_mask):
    """Returns bool [B, N]: which windows of the mask [B, N, S] hold anything."""
    return tf.reduce_any(input_mask > 0, axis=2)
