"""Shapes and types of tensors in nested structures: in Keras, in TensorFlow, and as JSON."""

import json
from collections.abc import Mapping

import keras
import tensorflow as tf


def tensor_spec(symbol):
    """Returns the TensorFlow type of a KerasTensor."""
    if symbol.ragged:
        return tf.RaggedTensorSpec(symbol.shape, symbol.dtype, symbol.ragged_rank)
    return tf.TensorSpec(symbol.shape, symbol.dtype)


def symbol_of(output):
    """Returns the KerasTensor of a traced function's result: a TensorFlow type, or a ragged tensor of the graph."""
    spec = output if isinstance(output, tf.TypeSpec) else tf.type_spec_from_value(output)
    return _symbol(spec.shape, spec.dtype.name, getattr(spec, "ragged_rank", None))


def _symbol(shape, dtype, ragged_rank):
    if ragged_rank is None:
        return keras.KerasTensor(shape, dtype)
    if not hasattr(keras.KerasTensor, "ragged_rank"):
        raise ValueError(
            "A model cannot have a layer that returns ragged tensors with this version of Keras: Keras 3.12 or later "
            f"is needed. Installed: {keras.__version__}."
        )
    return keras.KerasTensor(shape, dtype, ragged=True, ragged_rank=ragged_rank)


def structure_to_json(symbols) -> str:
    """Returns a structure of KerasTensors as JSON; the same for the same shapes and types."""
    return json.dumps(_to_plain(symbols), sort_keys=True)


def parse_structure(text: str):
    """Returns the structure that `structure_to_json` wrote."""
    return _to_symbols(json.loads(text))


def _to_plain(symbols):
    if isinstance(symbols, Mapping):
        return {"dict": {name: _to_plain(value) for name, value in symbols.items()}}
    if isinstance(symbols, (list, tuple)):
        return {"list": [_to_plain(value) for value in symbols]}
    return {"shape": list(symbols.shape), "dtype": symbols.dtype, "ragged_rank": getattr(symbols, "ragged_rank", None)}


def _to_symbols(plain):
    if "dict" in plain:
        return {name: _to_symbols(value) for name, value in plain["dict"].items()}
    if "list" in plain:
        return [_to_symbols(value) for value in plain["list"]]
    return _symbol(plain["shape"], plain["dtype"], plain["ragged_rank"])
