"""Shapes and types of tensors in nested structures: as Keras has them, as TensorFlow, and as JSON."""

import json
from collections.abc import Mapping

import keras
import tensorflow as tf


def spec_of(symbol):
    """Returns the TensorFlow type of a KerasTensor."""
    if symbol.ragged:
        return tf.RaggedTensorSpec(symbol.shape, symbol.dtype, symbol.ragged_rank)
    return tf.TensorSpec(symbol.shape, symbol.dtype)


def symbol_of(output):
    """Returns the KerasTensor of what a traced function returns: a TensorFlow type, or a ragged tensor of the graph."""
    spec = output if isinstance(output, tf.TypeSpec) else tf.type_spec_from_value(output)
    if isinstance(spec, tf.RaggedTensorSpec):
        return keras.KerasTensor(spec.shape, spec.dtype.name, ragged=True, ragged_rank=spec.ragged_rank)
    return keras.KerasTensor(spec.shape, spec.dtype.name)


def written(symbols) -> str:
    """Returns a structure of KerasTensors as JSON; the same for the same shapes and types."""
    return json.dumps(_plain(symbols), sort_keys=True)


def read(text: str):
    """Returns the structure that `written` wrote."""
    return _symbols(json.loads(text))


def _plain(symbols):
    if isinstance(symbols, Mapping):
        return {"dict": {name: _plain(value) for name, value in symbols.items()}}
    if isinstance(symbols, (list, tuple)):
        return {"list": [_plain(value) for value in symbols]}
    return {"shape": list(symbols.shape), "dtype": symbols.dtype, "ragged_rank": symbols.ragged_rank}


def _symbols(plain):
    if "dict" in plain:
        return {name: _symbols(value) for name, value in plain["dict"].items()}
    if "list" in plain:
        return [_symbols(value) for value in plain["list"]]
    rank = plain["ragged_rank"]
    return keras.KerasTensor(plain["shape"], plain["dtype"], ragged=rank is not None, ragged_rank=rank)
