"""Replaces the forward pass of the encoder in a task model."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models.encoder import Encoder
from bert_tf.models.pretrainer import Pretrainer

Encode = Callable[[Mapping[str, tf.Tensor]], dict[str, Any]]  # an encoder's features -> its outputs


def replace_encoder(model: keras.Model, make_encode: Callable[[Encoder], Encode]) -> keras.Model:
    """Returns a functional model whose encoder computes what `make_encode` returns; weights are shared.

    Args:
        model: functional model with an `Encoder` among its layers or those of a nested model, or with a `Pretrainer`.
        make_encode: takes the built encoder and returns the function that computes its outputs.
    """

    def call(layer, *args, **kwargs):
        if isinstance(layer, Encoder):
            return _Replacement(layer, make_encode(layer))(
                *args
            )  # the replacement handles training and masks itself
        if isinstance(layer, Pretrainer):
            return layer(*args, encode=make_encode(layer.encoder), **kwargs)
        return layer(*args, **kwargs)

    return keras.models.clone_model(model, clone_function=lambda layer: layer, call_function=call, recursive=True)


class _Replacement(keras.layers.Layer):
    def __init__(self, encoder, encode):
        super().__init__(name=encoder.name, dtype=encoder.dtype_policy, trainable=False)
        self._encode = encode
        self.compute_output_spec = encoder.compute_output_spec

    def call(self, inputs):
        return self._encode(inputs)
