"""Heads whose weights `bert_tf.load` returns as arrays, as layers."""

from typing import Any

import keras

from bert_tf.models.pretraining_heads import build_in_cls


def build_head(head: keras.layers.Layer, model: Any) -> keras.layers.Layer:
    """Builds a head of google-research/bert's scope "cls" with the weights in the model's `others`.

    Args:
        head: not built yet.
        model: a model from `bert_tf.load`, with all of the head's weights.
    """
    build_in_cls(head, model.config.hidden_size)
    for variable in head.variables:
        variable.assign(model.others[variable.path])
    return head
