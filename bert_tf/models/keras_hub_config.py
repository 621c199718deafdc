"""The configuration of a KerasHub preset or backbone, in our names."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.family_registry import FAMILIES

# KerasHub's names of our fields, in backbones; they have one dropout for both.
KERAS_HUB_KEYS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
OF_KERAS = ("name", "trainable", "dtype")  # what each layer of Keras states, without effect on a loaded model
_LONGEST = 2**20  # so that a damaged file cannot ask for tables of any size


def keras_hub_keys(model_type: str) -> dict[str, str]:
    """Returns a dict from the keys of a family's KerasHub backbone to our fields."""
    row = FAMILIES[model_type].keras_hub
    lacks = () if row.has_segments else ("type_vocab_size",)
    usual = {theirs: ours for theirs, ours in KERAS_HUB_KEYS.items() if ours not in (*row.keys.values(), *lacks)}
    return usual | dict(row.keys)


def from_keras_hub(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the config.json of a KerasHub preset, or a backbone's `get_config`, to our names.

    Args:
        values: contents of the file: {"class_name": "BertBackbone", "config": {...}}.

    Raises:
        ValueError: the backbone is not supported.
    """
    backbones = {f"{row.keras_hub.classes}Backbone": name for name, row in FAMILIES.items() if row.keras_hub}
    given, name = values.get("config"), values.get("class_name")
    if not isinstance(name, str) or name not in backbones or not isinstance(given, Mapping):
        raise ValueError(f"A KerasHub preset must be one of {', '.join(backbones)}; got {name!r}.")
    model_type = backbones[name]
    row = FAMILIES[model_type]
    known = {ours: given[theirs] for theirs, ours in keras_hub_keys(model_type).items() if theirs in given}
    both = {"attention_probs_dropout_prob": known["hidden_dropout_prob"]} if "hidden_dropout_prob" in known else {}
    both |= {} if row.keras_hub.has_segments else {"type_vocab_size": 0}
    if "position_buckets" in known:
        _check_buckets(known["position_buckets"], known.get("max_position_embeddings"))
    length = known.get("max_position_embeddings")
    if row.pad_before_positions is not None and type(length) is int:  # theirs are counted from 0
        both["max_position_embeddings"] = length + row.pad_before_positions + 1
    # The key layer_norm_eps says, among others, that "gelu" is the exact form.
    return {"model_type": model_type, **row.keras_hub.stated, **row.keras_hub.implied, **known, **both}


def _check_buckets(buckets, most):
    """Raises ValueError unless KerasHub puts each relative position into the bucket that it has in Transformers."""
    if type(buckets) is not int or type(most) is not int or not 0 < buckets // 2 < most - 1:
        return  # `EncoderConfig` refuses them
    from bert_tf.models.position_buckets import keras_hub_buckets, position_buckets  # here: it imports NumPy

    if most > _LONGEST:
        raise ValueError(f"max_sequence_length must be at most {_LONGEST:,} in a KerasHub preset; got {most}.")
    ours, theirs = (compute(most, buckets, most) for compute in (position_buckets, keras_hub_buckets))
    if (ours != theirs).any():
        distance = int((ours != theirs).argmax())
        raise ValueError(
            f"A KerasHub preset must have the relative positions of Transformers. With bucket_size={buckets} and "
            f"max_sequence_length={most}, KerasHub rounds the distance {distance} to bucket {theirs[distance]}, and "
            f"Transformers to {ours[distance]}. Such a model is not supported."
        )
