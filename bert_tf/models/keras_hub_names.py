"""What KerasHub calls our fields, in the configuration of a preset."""

from collections.abc import Mapping
from typing import Any

from bert_tf.models.families import FAMILIES

# What KerasHub's backbones call our fields. They have one dropout for both places.
KEYS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}


def from_keras_hub(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the config.json of a KerasHub preset says, in our names.

    Args:
        values: of the file: {"class_name": "BertBackbone", "config": {...}}.

    Raises:
        ValueError: it is of no backbone that we know.
    """
    backbones = {f"{row.keras_hub.classes}Backbone": name for name, row in FAMILIES.items() if row.keras_hub}
    given, name = values.get("config"), values.get("class_name")
    if not isinstance(name, str) or name not in backbones or not isinstance(given, Mapping):
        raise ValueError(f"A KerasHub preset must be one of {', '.join(backbones)}. Received: {name!r}.")
    known = {ours: given[theirs] for theirs, ours in KEYS.items() if theirs in given}
    both = {"attention_probs_dropout_prob": known["hidden_dropout_prob"]} if "hidden_dropout_prob" in known else {}
    row = FAMILIES[backbones[name]]
    # The key layer_norm_eps says, among others, that "gelu" is the exact form.
    return {"model_type": backbones[name], **row.keras_hub.implied, **known, **both}
