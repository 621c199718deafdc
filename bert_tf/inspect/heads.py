"""Heads that `bert_tf.load` leaves as arrays, as layers."""

from typing import Any

import keras


def with_weights(head: keras.layers.Layer, model: Any) -> keras.layers.Layer:
    """Builds a head of google-research/bert's scope "cls", and returns it with the weights in the model's `others`.

    Args:
        head: new.
        model: what `bert_tf.load` gave, with all of the head's weights.
    """
    with keras.name_scope("cls"):
        head.build((None, None, model.config.hidden_size))
    for variable in head.variables:
        variable.assign(model.others[variable.path])
    return head
