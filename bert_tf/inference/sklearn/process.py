"""What a program sets once for its whole process, here for a block: precision, and the seed of new weights."""

import contextlib
import random

import keras

from bert_tf.utils.names import PRECISIONS


@contextlib.contextmanager
def precision_of(name: str):
    """Has the layers that are made inside compute in `name`, one of `names.PRECISIONS`; weights are float32.

    Raises:
        ValueError: there is no such precision.
    """
    if name not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}. Received: {name!r}; choose one.")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


@contextlib.contextmanager
def seed_of_weights(seed: int):
    """Has new weights follow from `seed`, the same as a program's; outside, random numbers go on as if nothing was.

    Keras draws the seed of each initializer from Python's generator, so no other need be set.
    """
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
