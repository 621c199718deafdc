"""How datasets are gone through."""

import tensorflow as tf


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset whose threads and buffers stay as many as they are at first.

    The thread by which TensorFlow 2.21 adapts them sleeps for up to a minute at a time, and whoever lets go of an
    iterator may have to wait for it: a run stood still for that long behind its last step.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
