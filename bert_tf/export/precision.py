"""Keras dtype policies, and a task's model built under one with a checkpoint's weights."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.config_shapes import check_shapes


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Context manager in which new layers use the Keras dtype policy of that name."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def build_with_weights(task: Any, checkpoint: Any, dtype: str = "float32") -> tuple[keras.Model, Any]:
    """Returns a task's model with a checkpoint's weights, and the report of `assign_weights`.

    Args:
        task: with `build_model` and a configuration; see `tasks/base.py`.
        checkpoint: an open checkpoint.
        dtype: data type of weights and computation.

    Raises:
        ValueError: the weights do not match the task's configuration.
    """
    check_shapes(checkpoint, task.config)
    with dtype_policy(dtype):
        model = task.build_model()
    return model, assign_weights(checkpoint, model.variables, allow_unmatched=heads.unused(task))
