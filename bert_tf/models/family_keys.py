"""Readers of the keys of config.json that express a setting differently from `EncoderConfig`.

A function here is the `Family.restate` of a row. It takes the contents of a config.json and the family's defaults, and
returns a copy of the former in which each such key is replaced by the keys of our fields that mean the same.
"""

import json
from collections.abc import Mapping
from typing import Any

from bert_tf.utils.files import brief

# Key of config.json -> the supported value, and the one that an absent key means.
DISENTANGLED = {
    "relative_attention": (True, False), "share_att_key": (True, False), "norm_rel_ebd": ("layer_norm", "none"),
}  # fmt: skip


def read_relative_positions(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the keys of relative positions, and checks those that an absent key would turn off."""
    values = dict(values)
    if not values.get("conv_kernel_size"):  # as in Transformers, where nothing then reads the other keys
        for key in ("conv_kernel_size", "conv_act", "conv_groups"):
            values.pop(key, None)
    width, heads = (values.get(name, defaults.get(name)) for name in ("hidden_size", "num_attention_heads"))
    good = DISENTANGLED | {name: (width, width) for name in ("embedding_size", "pooler_hidden_size")}
    good["conv_groups"] = 1, 1
    if "attention_head_size" in values and isinstance(width, int) and isinstance(heads, int) and heads:
        good["attention_head_size"] = (width // heads, None)
    for key, (supported, absent) in good.items():
        if values.get(key, absent) != supported:
            received = brief(values[key]) if key in values else "none"
            raise ValueError(f"{key} must be {json.dumps(supported)} for this model_type. Received: {received}; use "
                             "another model.")  # fmt: skip
    kinds = values.get("pos_att_type")
    if isinstance(kinds, str):
        values["pos_att_type"] = kinds = [kind.strip() for kind in kinds.lower().split("|")]
    if not kinds:
        raise ValueError(f"pos_att_type must have c2p, p2c or both for this model_type. Received: {brief(kinds)}.")
    for key in ("position_buckets", "max_relative_positions"):
        if values.get(key) == -1:
            del values[key]
    if values.pop("legacy", True) is False:  # its head multiplies by the word embeddings, whatever the other key says
        values.pop("tie_word_embeddings", None)
    return values


# Kind of attention in Transformers 5 -> the key of version 4 for the base of its rotary positions.
_ROPE_BASES = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


def read_layer_types(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `layer_types` and `rope_parameters` of Transformers 5 to the keys of version 4 that mean the same."""
    values = dict(values)
    kinds, rope = values.pop("layer_types", None), values.pop("rope_parameters", None)
    if kinds is not None:
        layers = values.get("num_hidden_layers", defaults.get("num_hidden_layers"))
        values["global_attn_every_n_layers"] = _every_n_layers(kinds, values.get("global_attn_every_n_layers"), layers)
    return values if rope is None else values | _rope_bases(rope)


def _every_n_layers(kinds, stated, layers):
    """Returns the n of a list of layers, of several the one that the file states, which may be None."""
    known = isinstance(kinds, list) and all(kind in list(_ROPE_BASES) for kind in kinds)
    local = [kind == "sliding_attention" for kind in kinds] if known else []
    steps = (stated, *range(1, len(local) + 1))
    fits = (n for n in steps if type(n) is int and n > 0 and local == [i % n > 0 for i in range(len(local))])
    if not known or not (every := next(fits, None)):
        raise ValueError(
            "layer_types must be full_attention in every nth layer from the first on, and sliding_attention in "
            f"the others. Received: {brief(kinds)}; use another model."
        )
    if type(layers) is int and len(kinds) != layers:
        raise ValueError(
            f"layer_types must have one entry for each layer, and num_hidden_layers is {layers}. Received: a "
            f"list of {len(kinds)}; correct one of the two keys."
        )
    return every


def _rope_bases(rope):
    given = rope if isinstance(rope, Mapping) else {}
    flat = {key: value for key, value in given.items() if key not in _ROPE_BASES}
    entries = {kind: given[kind] for kind in _ROPE_BASES if given.get(kind) is not None}
    for each in (flat, *entries.values()):
        if isinstance(each, Mapping) and each.get("rope_type", "default") != "default":
            raise ValueError(
                "rope_parameters must have the rope_type default, because positions are not scaled here. Received: "
                f"{brief(each)}; use another model."
            )
    # Transformers 5 adds these two to the file of a model without local attention, and ignores them.
    if given is not rope or not flat.items() <= {"rope_type": "default", "rope_theta": None}.items():
        raise ValueError(
            f"rope_parameters must state rope_theta for each of {' and '.join(_ROPE_BASES)}. Received: {brief(rope)}; "
            'write {"full_attention": {"rope_theta": 160000.0}, "sliding_attention": {"rope_theta": 10000.0}}, with '
            "the model's own values."
        )
    for kind, entry in entries.items():
        if not isinstance(entry, Mapping) or entry.get("rope_theta") is None:
            raise ValueError(f"rope_parameters must state rope_theta for {kind}. Received: {brief(entry)}; add it.")
        if others := sorted({*entry} - {"rope_type", "rope_theta"}):
            raise ValueError(
                f"rope_parameters must have only rope_type and rope_theta for {kind}. Also received: "
                f"{', '.join(others)}; use another model."
            )
    return {_ROPE_BASES[kind]: entry["rope_theta"] for kind, entry in entries.items()}
