"""How the keys of Google's and Hugging Face's configuration files become fields of `EncoderConfig`."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models import config_files, family_registry
from bert_tf.models.config_key_checks import check_config_keys
from bert_tf.utils.files import brief

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh", "linear")
ACTIVATION_FIELDS = ("hidden_act", "classifier_act", "conv_act")
# The word "gelu" means two functions: in google-research/bert's modeling.py the tanh approximation, in Hugging Face's
# config.json the exact erf form. Inside this package "gelu" is erf and "gelu_tanh" is tanh; files are distinguished by
# the keys that only Hugging Face writes.
_HUGGING_FACE_KEYS = ("model_type", "architectures", "transformers_version", "layer_norm_eps")
_HUGGING_FACE_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh"}
_GOOGLE_DEFAULTS = {"type_vocab_size": 16}  # what modeling.py assumes when the key is absent; every release says 2


def translate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the contents of a configuration file to the names and values of our fields; unknown keys are kept.

    Args:
        values: contents of bert_config.json, of Hugging Face's config.json, or the output of `EncoderConfig.to_dict`,
            which already contains "gelu_tanh" and is unchanged.

    Raises:
        ValueError: a key has a value that the family or this package does not support.
    """
    hugging_face = any(key in values for key in _HUGGING_FACE_KEYS)
    row = family_registry.family(values.get("model_type", family_registry.DEFAULT))
    if values.get("is_decoder") is True and config_files.ignores_is_decoder(values):
        raise ValueError(
            "is_decoder must be false or absent for this model_type, because Transformers ignores the key and its "
            "encoder is always bidirectional; got true; remove the key."
        )
    read = {"hidden_act": "gelu", **row.read(values)}
    for name in ACTIVATION_FIELDS:
        if name == "hidden_act" or read.get(name) is not None:  # without `classifier_act`, there is no such map
            read[name] = _translate_activation(row.key_in(values, name), read[name], hugging_face)
    read = read if hugging_face else {**_GOOGLE_DEFAULTS, **read}
    check_config_keys(read)
    return read


def _translate_activation(key, given, hugging_face):
    if not isinstance(given, str):
        raise ValueError(f"{key} must be the name of an activation; got {brief(given)}.")
    act = given.lower()
    if act == "gelu" and not hugging_face:
        act = "gelu_tanh"
    act = _HUGGING_FACE_ACTIVATIONS.get(act, act)
    if act not in ACTIVATIONS:
        raise ValueError(f"{key} must be one of {', '.join(ACTIVATIONS)}; got {brief(given)}.")
    return act
