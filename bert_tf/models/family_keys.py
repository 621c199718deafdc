"""Readers of the keys of config.json that express a setting differently from `EncoderConfig`.

A function here is the `Family.restate` of a row. It takes the contents of a config.json and the family's defaults, and
returns a copy of the former in which each such key is replaced by the keys of our fields that mean the same. Where the
family's own classes need these keys, another function is its `Family.write_back`.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from absl import logging

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
            raise ValueError(f"{key} must be {json.dumps(supported)} for this model_type; got {received}, which "
                             "bert_tf does not support.")  # fmt: skip
    kinds = values.get("pos_att_type")
    if isinstance(kinds, str):
        values["pos_att_type"] = kinds = [kind.strip() for kind in kinds.lower().split("|")]
    if not kinds:
        raise ValueError(f"pos_att_type must have c2p, p2c or both for this model_type; got {brief(kinds)}.")
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
    """Returns the n of a list of layers, of several possible ones `stated`, the file's, which may be None."""
    known = isinstance(kinds, list) and all(kind in list(_ROPE_BASES) for kind in kinds)
    local = [kind == "sliding_attention" for kind in kinds] if known else []
    steps = (stated, *range(1, len(local) + 1))
    fits = (n for n in steps if type(n) is int and n > 0 and local == [i % n > 0 for i in range(len(local))])
    if not known or not (every := next(fits, None)):
        raise ValueError(
            "layer_types must be full_attention in every nth layer from the first on, and sliding_attention in the "
            f"others; got {brief(kinds)}, which bert_tf does not support."
        )
    if type(layers) is int and len(kinds) != layers:
        raise ValueError(
            f"layer_types must have one entry for each layer, and num_hidden_layers is {layers}; got a list of "
            f"{len(kinds)}; make the two keys agree."
        )
    return every


def _rope_bases(rope):
    given = rope if isinstance(rope, Mapping) else {}
    flat = {key: value for key, value in given.items() if key not in _ROPE_BASES}
    entries = {kind: given[kind] for kind in _ROPE_BASES if given.get(kind) is not None}
    for each in (flat, *entries.values()):
        if isinstance(each, Mapping) and each.get("rope_type", "default") != "default":
            raise ValueError(
                "rope_parameters must have the rope_type default, because bert_tf does not scale positions; got "
                f"{brief(each)}."
            )
    # Transformers 5 adds these two to the file of a model without local attention, and ignores them.
    if given is not rope or not flat.items() <= {"rope_type": "default", "rope_theta": None}.items():
        raise ValueError(
            f"rope_parameters must contain rope_theta for each of {' and '.join(_ROPE_BASES)}; got {brief(rope)}; "
            'write {"full_attention": {"rope_theta": 160000.0}, "sliding_attention": {"rope_theta": 10000.0}}, with '
            "the model's own values."
        )
    for kind, entry in entries.items():
        if not isinstance(entry, Mapping) or entry.get("rope_theta") is None:
            raise ValueError(f"rope_parameters must contain rope_theta for {kind}; got {brief(entry)}; add it.")
        if others := sorted({*entry} - {"rope_type", "rope_theta"}):
            raise ValueError(
                f"rope_parameters must have only rope_type and rope_theta for {kind}; also got {', '.join(others)}, "
                "which bert_tf does not support."
            )
    return {_ROPE_BASES[kind]: entry["rope_theta"] for kind, entry in entries.items()}


# What a configuration of this form means by an absent key; of others, the supported value, which must be stated.
_GPT2_DEFAULTS = {
    "n_layer": 12, "n_head": 12, "n_positions": 1024, "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1,
    "attn_pdrop": 0.1, "rotary_emb_base": 10000.0,
}  # fmt: skip
_GPT2_STATED = {
    "activation_function": "swiglu", "rotary_emb_fraction": 1.0, "qkv_proj_bias": False, "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
}  # fmt: skip
_TRAINED_POSITIONS = 2048  # what an absent max_trained_positions means
# The keys of GPT-2 -> those of Transformers 5, which has a class for this family and reads its own keys alone.
_GPT2_KEYS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "n_positions": "max_position_embeddings", "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob", "layer_norm_epsilon": "layer_norm_eps",
}  # fmt: skip


def read_gpt2_keys(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a configuration of a BERT with GPT-2's keys, as published, or of Transformers 5, with BERT's."""
    values = dict(values)
    if "n_embd" in values:
        values = _GPT2_DEFAULTS | values
        if key := next((key for key in _GPT2_STATED if key not in values), None):
            raise ValueError(
                f"{key} must be {json.dumps(_GPT2_STATED[key])} for this model_type; got none, which has another "
                "meaning in the published code and is not supported."
            )
        if values.get("n_inner") is None:
            raise ValueError("n_inner must be set for this model_type; got none; add the width of mlp.fc11.")
    elif "classifier_bias" not in values:  # the class of Transformers 5 has these biases
        values |= {"classifier_bias": True, "decoder_bias": True}
    if (rope := values.pop("rope_parameters", None)) is not None:
        values["global_rope_theta"] = _only_base(rope)
    _check_base(values, "rotary_emb_base")
    _check_head_width(values, defaults)
    multiple = values.pop("pad_vocab_size_multiple", None) or 1
    if type(multiple) is int and type(size := values.get("vocab_size")) is int:
        values["vocab_size"] = -(-size // multiple) * multiple
    return _limit_to_trained(values)


def _only_base(rope):
    if not isinstance(rope, Mapping) or rope.get("rope_type", "default") != "default" or "rope_theta" not in rope:
        raise ValueError(
            f"rope_parameters must have the rope_type default and a rope_theta for this model_type; got {brief(rope)}, "
            "which bert_tf does not support."
        )
    return rope["rope_theta"]


def _check_base(values, key):
    """Raises ValueError for an explicit null: without rotary positions there would be a table, which has no name."""
    for name in (key, "global_rope_theta"):
        if name in values and values[name] is None:
            raise ValueError(
                f"{name} must be a positive number for this model_type; got null; set it to the base of the rotary "
                "positions."
            )


def _check_head_width(values, defaults):
    given = values.pop("head_dim", None)
    names = (("n_embd", "hidden_size"), ("n_head", "num_attention_heads"))
    width, heads = (values.get(old, values.get(new, defaults.get(new))) for old, new in names)
    if given is not None and type(width) is int and type(heads) is int and heads and given != width // heads:
        raise ValueError(
            f"head_dim must be {width // heads}, hidden_size / num_attention_heads, or absent; got {brief(given)}, "
            "which bert_tf does not support."
        )


def _limit_to_trained(values):
    """Returns the configuration without scaled positions.

    In longer texts than were trained, the published code changes all positions by the length of the longest text that
    it has ever seen. Shorter texts are not affected, so the model is limited to these.
    """
    factor, trained = values.pop("rotary_scaling_factor", None), values.pop("max_trained_positions", None)
    trained = trained or _TRAINED_POSITIONS
    name = "n_positions" if "n_positions" in values else "max_position_embeddings"
    most = values.get(name)
    if factor and type(most) is int and type(trained) is int and most > trained:
        _warn_of_limit(brief(factor), trained, most)
        values[name] = trained
    return values


@functools.cache
def _warn_of_limit(factor, trained, most):
    """Logs, once per model, that its maximum length is reduced."""
    logging.warning(
        "rotary_scaling_factor=%s is not supported for texts of more than max_trained_positions=%d tokens, because "
        "their positions would depend on the longest text before: the maximum is %d tokens, not %d.",
        *(factor, trained, trained, most),
    )


def write_gpt2_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the keys that Transformers 5 reads to a configuration with GPT-2's, and drops those of absent biases."""
    values = dict(values)
    for name in ("classifier_bias", "decoder_bias"):
        if values.get(name) is False:
            del values[name]
    values |= {theirs: values[key] for key, theirs in _GPT2_KEYS.items() if key in values}
    if values.get("rotary_emb_base"):
        values["rope_parameters"] = {"rope_type": "default", "rope_theta": float(values["rotary_emb_base"])}
    return values


def read_ntk_scaling(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `rope_scaling` of the type ntk, with a fixed factor, to `rope_ntk_factor`."""
    values = dict(values)
    if "rope_parameters" in values:
        raise ValueError(
            "rope_parameters must be absent for this model_type: rope_theta and rope_scaling define how positions are "
            f"rotated; got {brief(values['rope_parameters'])}; use the configuration as published."
        )
    _check_base(values, "rope_theta")
    scaling = values.pop("rope_scaling", None)
    if scaling is None:
        return values
    given = dict(scaling) if isinstance(scaling, Mapping) else {}
    kind, factor = given.pop("type", given.pop("rope_type", None)), given.pop("factor", None)
    given.pop("rope_type", None)
    is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
    if kind != "ntk" or not is_number or factor < 1 or any(value is not None for value in given.values()):
        raise ValueError(
            "rope_scaling must have the type ntk and a factor of 1 or more, and nothing else, for this model_type; got "
            f"{brief(scaling)}, which bert_tf does not support."
        )
    return values | {"rope_ntk_factor": float(factor)}


def write_ntk_scaling(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `rope_ntk_factor` back to `rope_scaling`, and adds that queries, keys and values are one weight."""
    values = dict(values)
    factor = values.pop("rope_ntk_factor", None)
    scaling = {"rope_scaling": {"type": "ntk", "factor": factor}} if factor else {}
    return values | scaling | {"pack_qkv": True}
