"""The named inputs of an encoder: checked and made into int32 tensors, or refused under the name that was given."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids", "sentence_ids")
_ALIKE = 0.85  # of two names, of which one is then a slip of the pen
_FLOATS = ("masked_lm_weights", "sampling_draws")
# What TF Hub, Hugging Face, KerasHub and tf-models-official call them.
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
    """A Keras model whose input is a dict of the features in `TAKES`; a call refuses all others by name."""

    TAKES: ClassVar[tuple[str, ...]] = ENCODER_FEATURES

    def get_config(self):
        """Returns what all of them are made with: `config` an `EncoderConfig`, and `rematerialize`."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            "rematerialize": self.rematerialize,
        }

    def __call__(self, inputs=None, *args, **kwargs):
        return super().__call__(named_inputs(inputs, self.TAKES), *args, **kwargs)


def encoder_inputs(features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those features of a batch that an encoder reads, and leaves the others out: labels, predictions."""
    return {name: features[name] for name in ENCODER_FEATURES if name in features}


def named_inputs(inputs: Mapping[str, Any], takes: Sequence[str] = ENCODER_FEATURES) -> dict[str, Any]:
    """Returns the inputs of a model as tensors, int32 or float32 as the feature is.

    Args:
        inputs: {name: tensor, array, nested list or symbolic tensor}, integers or bool; `input_ids` is [B, S], and what
            else there is for each token has the same shape. None stands for an input that is absent.
        takes: the names that the model takes.

    Raises:
        ValueError: `inputs` is no mapping; a name is not in `takes`, or `input_ids` is missing; values are no integers,
            or not of the shape; outside of graphs also: a mask has something other than 0 and 1.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"`inputs` must be a dict with `input_ids`, and perhaps {_listed(takes[1:])}. Received: "
            f"{type(inputs).__name__}; give it as the tokenizer does, bert.encoder(bert.tokenizer(texts))."
        )
    check_names(inputs, takes)
    found = {name: _tensor(name, values) for name, values in inputs.items() if values is not None}
    if "input_ids" not in found:
        raise ValueError(f"`inputs` must have `input_ids`. Received: {_listed(inputs)}; add them.")
    _check_shapes(found)
    _check_mask(found.get("input_mask"))
    return found


def check_names(given: Mapping[str, Any], takes: Sequence[str]):
    """Raises ValueError where a name is not in `takes`, and says what it is called here."""
    strange = [name for name in given if name not in takes]
    if not strange:
        return
    advice = [_advice(name, takes) for name in strange]
    raise ValueError(f"`inputs` must be among {_listed(takes)}. Received {'; '.join(advice)}.")


def _advice(name, takes):
    ours = _ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(str(name), takes, 1, _ALIKE)), None)
    if ours in takes:
        return f"`{name}`, which is called `{ours}` here"
    if name == "position_ids":
        return "`position_ids`, which the model counts itself: mark the sentences of packed rows by `sentence_ids`"
    return f"`{name}`, which this model does not read: leave it out"


def _listed(names):
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _tensor(name, values):
    if isinstance(values, tf.RaggedTensor):
        raise ValueError(
            f"`{name}` must be a dense tensor [B, S]. Received a ragged one; fill its rows up, as `tokenizer.pad` does."
        )
    if not isinstance(values, tf.Tensor | tf.Variable | keras.KerasTensor | keras.Variable):
        values = _array(name, values)
    dtype = getattr(values.dtype, "name", values.dtype)
    wanted = "float32" if name in _FLOATS else "int32"
    if wanted == "int32" and dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f'`{name}` must be integers. Received: {dtype}; convert it, or make the keras.Input with dtype="int32".'
        )
    if isinstance(values, np.ndarray):
        return tf.constant(values.astype(wanted))
    return values if dtype == wanted else keras.ops.cast(values, wanted)


def _array(name, values):
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be rows of one length. Received lists of several; fill them up, and give an `input_mask` "
            "with 0 there."
        ) from error


def _check_shapes(found):
    shape = tf.TensorShape(found["input_ids"].shape)
    if shape.rank not in (None, 2):
        raise ValueError(
            f"`input_ids` must be a batch of rows, [B, S]. Received the shape {shape}; put one row into brackets."
        )
    for name in ENCODER_FEATURES:
        if name in found and not shape.is_compatible_with(found[name].shape):
            raise ValueError(
                f"`{name}` must have the shape of `input_ids`, {shape}. Received: {tuple(found[name].shape)}; give a "
                "value for each token."
            )


def _check_mask(mask):
    """Nothing is looked at in a graph, lest a step cost more."""
    if not isinstance(mask, tf.Tensor) or not tf.executing_eagerly() or not tf.size(mask):
        return
    low, high = int(tf.reduce_min(mask)), int(tf.reduce_max(mask))
    if low < 0 or high > 1:
        raise ValueError(
            f"`input_mask` must be 1 for a token and 0 for padding. Received values from {low} to {high}; is it "
            "another input, or a mask that is added to scores?"
        )
