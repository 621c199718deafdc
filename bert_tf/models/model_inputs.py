"""The named inputs of an encoder: checks names and shapes and converts them to int32 tensors."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids", "sentence_ids")
_ALIKE = 0.85  # similarity of two names, one of which is then probably a typo
_FLOATS = ("masked_lm_weights", "sampling_draws")
# Their names in TF Hub, Hugging Face, KerasHub and tf-models-official.
_ELSEWHERE = {
    "input_word_ids": "input_ids",
    "token_ids": "input_ids",
    "tokens": "input_ids",
    "attention_mask": "input_mask",
    "padding_mask": "input_mask",
    "mask": "input_mask",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
    "type_ids": "segment_ids",
}


class NamedInputsModel(keras.Model):
    """Keras model whose input is a dict of the features in `TAKES`; other names are rejected."""

    TAKES: ClassVar[tuple[str, ...]] = ENCODER_FEATURES

    def get_config(self):
        """Returns the shared constructor arguments: `config`, an `EncoderConfig`, and `gradient_checkpointing`."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            "gradient_checkpointing": self.gradient_checkpointing,
        }

    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(named_inputs(inputs, self.TAKES), *args, **kwargs)


def encoder_inputs(features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the features of a batch that an encoder reads, without others such as labels."""
    return {name: features[name] for name in ENCODER_FEATURES if name in features}


def named_inputs(inputs: Mapping[str, Any], takes: Sequence[str] = ENCODER_FEATURES) -> dict[str, Any]:
    """Converts the inputs of a model to tensors, int32 or float32 depending on the feature.

    Args:
        inputs: {name: tensor, array, nested list or symbolic tensor}, integers or bool; `input_ids` is [B, S], and the
            other per-token inputs have the same shape. None stands for an absent input.
        takes: the names that the model accepts.

    Raises:
        ValueError: `inputs` is not a mapping; a name is not in `takes`, or `input_ids` is missing; values are not
            integers or have the wrong shape; outside graphs also: a mask has values other than 0 and 1.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"`inputs` must be a dict with `input_ids` and optionally {_listed(takes[1:])}; got "
            f"{type(inputs).__name__}; pass the tokenizer's output, as in bert.encoder(bert.tokenizer(texts))."
        )
    check_names(inputs, takes)
    found = {name: _tensor(name, values) for name, values in inputs.items() if values is not None}
    if "input_ids" not in found:
        raise ValueError(f"`inputs` lacks `input_ids`; got {_listed(inputs)}; add them.")
    _check_shapes(found)
    _check_mask(found.get("input_mask"))
    return found


def check_names(given: Mapping[str, Any], takes: Sequence[str]):
    """Raises ValueError if a name is not in `takes`, and suggests the right name."""
    strange = [name for name in given if name not in takes]
    if not strange:
        return
    advice = [_advice(name, takes) for name in strange]
    raise ValueError(f"`inputs` must only have {_listed(takes)}; got {'; '.join(advice)}.")


def _advice(name, takes):
    ours = _ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(str(name), takes, 1, _ALIKE)), None)
    if ours in takes:
        return f"`{name}`, which is called `{ours}` in bert_tf"
    if name == "position_ids":
        return "`position_ids`, which the model computes itself: mark packed examples with `sentence_ids`"
    return f"`{name}`, which this model does not use: omit it"


def _listed(names):
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _tensor(name, values):
    if isinstance(values, tf.RaggedTensor):
        raise ValueError(
            f"`{name}` must be a dense tensor [B, S]; got a ragged one; pad it, as with `tokenizer.pad`."
        )
    if not isinstance(values, tf.Tensor | tf.Variable | keras.KerasTensor | keras.Variable):
        values = _array(name, values)
    dtype = getattr(values.dtype, "name", values.dtype)
    wanted = "float32" if name in _FLOATS else "int32"
    if wanted == "int32" and dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f'`{name}` must be integers; got {dtype}; convert it, or create the keras.Input with dtype="int32".'
        )
    if isinstance(values, np.ndarray):
        return tf.constant(values.astype(wanted))
    return values if dtype == wanted else keras.ops.cast(values, wanted)


def _array(name, values):
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have sequences of equal length; got lists of several lengths; pad them, and pass an "
            "`input_mask` with 0 for padding."
        ) from error


def _check_shapes(found):
    shape = tf.TensorShape(found["input_ids"].shape)
    if shape.rank not in (None, 2):
        raise ValueError(
            f"`input_ids` must be a batch of sequences, [B, S]; got shape {shape}; put one sequence in a list."
        )
    for name in ENCODER_FEATURES:
        if name in found and not shape.is_compatible_with(found[name].shape):
            raise ValueError(
                f"`{name}` must have the shape of `input_ids`, {shape}; got {tuple(found[name].shape)}; pass one "
                "value per token."
            )


def _check_mask(mask):
    """Checks the mask in eager mode only, to keep graph steps fast."""
    if not isinstance(mask, tf.Tensor) or not tf.executing_eagerly() or not tf.size(mask):
        return
    low, high = int(tf.reduce_min(mask)), int(tf.reduce_max(mask))
    if low < 0 or high > 1:
        raise ValueError(
            f"`input_mask` must be 1 for tokens and 0 for padding; got values from {low} to {high}. Do not pass a mask "
            "that is added to attention scores, or another input."
        )
