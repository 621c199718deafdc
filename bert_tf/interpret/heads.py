"""Heads that `bert_tf.load` leaves as arrays, as layers."""

from typing import Any

import keras

from bert_tf.models.pretraining_heads import build_in_cls


def with_weights(head: keras.layers.Layer, model: Any) -> keras.layers.Layer:
    """Builds a head of google-research/bert's scope "cls", and returns it with the weights in the model's `others`.

    Args:
        head: new.
        model: what `bert_tf.load` gave, with all of the head's weights.
    """
    build_in_cls(head, model.config.hidden_size)
    for variable in head.variables:
        variable.assign(model.others[variable.path])
    return head
