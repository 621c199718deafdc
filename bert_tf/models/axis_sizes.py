"""Sizes of a tensor's axes, as the target shape of a reshape needs them."""

import tensorflow as tf


def axis_sizes(x: tf.Tensor) -> list:
    """Returns the size of each axis of `x` for `tf.reshape`: numbers; -1 for an axis that alone is not known.

    If several are not known before the graph runs, these are int32 scalars. LiteRT passes a graph on to its fast
    kernels only if the shapes follow from the inputs' shapes, which they do not after a reshape to computed sizes.
    """
    sizes = x.shape.as_list()
    if sizes.count(None) <= 1:
        return [-1 if size is None else size for size in sizes]
    return [size if known is None else known for known, size in zip(sizes, tf.unstack(tf.shape(x)), strict=True)]
