"""What an encoder is made of: one frozen dataclass, JSON both ways, in Google's and in Hugging Face's dialect."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from bert_tf.files import write_text

CONFIG_FILES = ("bert_config.json", "config.json")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "tanh", "linear")

# Two dialects use the word "gelu" for two functions: google-research/bert's modeling.py means the tanh approximation,
# Hugging Face's config.json means the exact erf form. Inside this package "gelu" is erf and "gelu_tanh" is tanh; a file
# says which dialect it speaks by the keys that only Hugging Face writes.
_HUGGING_FACE_KEYS = ("model_type", "architectures", "transformers_version", "layer_norm_eps")
_HUGGING_FACE_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh"}
_GOOGLE_DEFAULTS = {"type_vocab_size": 16}  # what modeling.py assumes when the key is absent; every release says 2


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The shape and the numbers of a BERT encoder (Devlin et al. 2018, section 3; google-research/bert modeling.py).

    Attributes:
        vocab_size: rows of the word-embedding table.
        hidden_size: width H of every token vector; a multiple of num_attention_heads.
        num_hidden_layers: Transformer blocks L.
        num_attention_heads: heads A per block, each H / A wide.
        intermediate_size: width of the feed-forward layer, 4H in every release.
        hidden_act: "gelu" (exact, erf), "gelu_tanh" (Google's approximation), "relu", "tanh" or "linear".
        hidden_dropout_prob: dropout on embeddings and on each sub-layer's output.
        attention_probs_dropout_prob: dropout on attention probabilities.
        max_position_embeddings: longest sequence, in word pieces.
        type_vocab_size: segments; 2 in every release.
        initializer_range: standard deviation of the truncated normal that weights start from.
        layer_norm_eps: added to the variance in every LayerNorm.
        extra: keys that this class does not know, kept as they came.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads. Received: hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns one flat dict, unknown keys included; `from_dict` of it is equal to this config."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "extra"}
        return {**self.extra, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EncoderConfig":
        """Reads bert_config.json, Hugging Face's config.json or what `to_dict` wrote.

        Raises:
            ValueError: a key is missing, has the wrong type or a value that BERT does not know.
        """
        values = _translate(dict(values))
        if "vocab_size" not in values:
            raise ValueError(f"A BERT configuration must give vocab_size. Received the keys: {sorted(values)}.")
        known = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        extra = {k: v for k, v in values.items() if k not in known}
        return cls(**{k: v for k, v in values.items() if k in known}, extra=extra)

    def save(self, path: str | os.PathLike):
        """Writes JSON to `path`."""
        write_text(path, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "EncoderConfig":
        """Reads the file at `path`, or the first of bert_config.json and config.json in the directory `path`."""
        path = _config_file(os.fspath(path))
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            if not isinstance(values, dict):
                raise ValueError(f"A BERT configuration must be a JSON object. Received: {type(values).__name__}.")
            return cls.from_dict(values)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path} must be a BERT configuration in JSON, such as bert_config.json. Received: {error}; correct "
                "the file, or `bert_config_file`."
            ) from error
        except FileNotFoundError as error:
            raise ValueError(
                f"A BERT configuration must be a file. There is none at {path}; name one, such as bert_config.json."
            ) from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _check_field(field, value):
    """Raises ValueError that names the field, what it must be, and what was received."""
    if field.name == "extra":
        return
    if field.name == "hidden_act":
        good, must = value in ACTIVATIONS, f"one of {ACTIVATIONS}"
    elif field.type in (int, "int"):
        good, must = isinstance(value, int) and not isinstance(value, bool) and value > 0, "a positive integer"
    elif field.name.endswith("_prob"):
        good, must = isinstance(value, (int, float)) and 0 <= value < 1, "a number from 0 up to, not including, 1"
    else:
        good, must = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0, "a positive number"
    if not good:
        raise ValueError(f"{field.name} must be {must}. Received: {value!r}.")


def _translate(values):
    """Turns either dialect into our own keys; what `to_dict` wrote says "gelu_tanh" itself and passes unchanged."""
    hugging_face = any(key in values for key in _HUGGING_FACE_KEYS)
    act = values.get("hidden_act", "gelu")
    if not isinstance(act, str):
        raise ValueError(f"hidden_act must be the name of an activation. Received: {act!r}.")
    act = act.lower()
    if act == "gelu" and not hugging_face:
        act = "gelu_tanh"
    values["hidden_act"] = _HUGGING_FACE_ACTIVATIONS.get(act, act)
    positions = values.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise ValueError(f'position_embedding_type must be "absolute". Received: {positions!r}.')
    return values if hugging_face else {**_GOOGLE_DEFAULTS, **values}


def _config_file(path):
    if not os.path.isdir(path):
        return path
    for name in CONFIG_FILES:
        if os.path.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    there = sorted(os.listdir(path))[:20]
    raise ValueError(f"{path} must hold one of {CONFIG_FILES}. Received a directory with: {there}.")
