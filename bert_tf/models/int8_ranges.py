"""How far the inputs of products go, noted while a model reads examples: where `INT8_RANGES` is wanted."""

import tensorflow as tf

from bert_tf.models.graph_forms import INT8_RANGES, notes

_MASK = object()  # stands among the notes, which else are those of kernels


def note_mask(input_mask: tf.Tensor):
    """Notes what an encoder reads now: int [B, S], 0 for padding, of which it does not count how far it goes."""
    found = notes(INT8_RANGES)
    if found is not None:
        found[_MASK] = input_mask


def note_inputs(x: tf.Tensor, kernel):
    """Notes how far each column of a layer's input goes.

    Args:
        x: float [B, S, in], for the pieces of the encoder's rows, or [n, in].
        kernel: variable [in, out] of the layer.
    """
    found = notes(INT8_RANGES)
    if found is None:
        return
    reach = tf.abs(tf.cast(x, tf.float32))
    if x.shape.rank == 3 and _MASK in found:
        reach *= tf.cast(found[_MASK], tf.float32)[..., tf.newaxis]
    most = tf.reduce_max(tf.reshape(reach, [-1, x.shape[-1]]), 0)
    found[kernel.path] = tf.maximum(found[kernel.path], most) if kernel.path in found else most


def found_ranges() -> dict[str, tf.Tensor]:
    """Returns {path of a kernel: how far each column of its input went, float32 [in]}, of what was noted."""
    return {path: most for path, most in notes(INT8_RANGES).items() if path is not _MASK}
