"""Model families: one entry each for configuration keys, published sizes, tokenizer, input template and weight names.

Code tests the settings of an `EncoderConfig`, never which family it is. Entries are looked up when needed, so that one
added to FAMILIES takes effect everywhere.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from bert_tf.models import sizes
from bert_tf.models.family import Family, InputTemplate, KerasHub
from bert_tf.utils.files import brief

# Key of its config.json -> the supported value, and the one that an absent key means.
_DISENTANGLED = {
    "relative_attention": (True, False), "share_att_key": (True, False), "norm_rel_ebd": ("layer_norm", "none"),
}  # fmt: skip


def _read_relative_positions(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the keys of relative positions, and checks those that an absent key would turn off."""
    values = dict(values)
    if not values.get("conv_kernel_size"):  # as in Transformers, where nothing then reads the other keys
        for key in ("conv_kernel_size", "conv_act", "conv_groups"):
            values.pop(key, None)
    width, heads = (values.get(name, defaults.get(name)) for name in ("hidden_size", "num_attention_heads"))
    good = _DISENTANGLED | {name: (width, width) for name in ("embedding_size", "pooler_hidden_size")}
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


def _read_layer_types(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
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


# === Families ===


DEFAULT = "bert"  # family of configurations without `model_type`, such as google-research/bert's

# Settings of KerasHub's layers: BERT's approximate GELU or the exact one, and LayerNorm's epsilon.
_HUB_TANH = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}
_HUB_ERF = {"hidden_act": "gelu", "layer_norm_eps": 1e-12}
_HUB_LM_TANH = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-5}
_HUB_LM_ERF = {"hidden_act": "gelu", "layer_norm_eps": 1e-5}

# Liu et al. 2019. One segment, and positions that start after that of padding.
_ROBERTA = Family(
    name_map="roberta",
    classes="Roberta",
    masked_lm_act="gelu",
    tokenizer="byte_bpe",
    template=InputTemplate(
        *(("<s>",), ("</s>", "</s>"), ("</s>",)), second_segment=0, pad="<pad>", unknown="<unk>", mask="<mask>"
    ),
    defaults={"has_pooler": False},
    fixed={"classifier_act": "tanh"},
    pad_before_positions=1,
    keras_hub=KerasHub("Roberta", _HUB_LM_ERF, _HUB_LM_ERF, has_segments=False),
    sizes=sizes.ROBERTA,
)

FAMILIES: dict[str, Family] = {  # the key is Hugging Face's `model_type`
    "bert": Family(
        name_map="bert",
        causal_lm="LMHeadModel",
        keras_hub=KerasHub("Bert", _HUB_TANH, _HUB_LM_ERF),
        sizes=sizes.BERT,
    ),
    # Sanh et al. 2019. It also has no dropout on the attention output, so training
    # differs slightly from Transformers; inference is identical.
    "distilbert": Family(
        name_map="distilbert",
        classes="DistilBert",
        causal_lm=None,
        keras_hub=KerasHub("DistilBert", _HUB_ERF, _HUB_LM_ERF, has_segments=False),
        template=InputTemplate(second_segment=0),
        keys={
            "n_layers": "num_hidden_layers",
            "n_heads": "num_attention_heads",
            "dim": "hidden_size",
            "hidden_dim": "intermediate_size",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
            "activation": "hidden_act",
        },
        defaults={"num_hidden_layers": 6},
        # With sinusoidal positions the table would have to stay fixed.
        fixed={"type_vocab_size": 0, "has_pooler": False, "layer_norm_eps": 1e-12, "sinusoidal_pos_embds": False}
        | {"classifier_act": "relu"},
        sizes=sizes.DISTILBERT,
    ),
    # Clark et al. 2020.
    "electra": Family(
        name_map="electra",
        classes="Electra",
        masked_lm_act="gelu",
        defaults={"embedding_size": 128},
        fixed={"has_pooler": False, "classifier_act": "gelu"},
        keras_hub=KerasHub(
            "Electra",
            _HUB_TANH,
            None,
            has_classifier=False,
            keys={"vocab_size": "vocab_size", "embedding_dim": "embedding_size"},
        ),
        sizes=sizes.ELECTRA,
    ),
    # Sun et al. 2019 and 2020 (ERNIE 2: a table of tasks), Sun et al. 2021 (ERNIE 3).
    "ernie": Family(
        name_map="ernie", classes="Ernie", switches={"task_type_vocab_size": "use_task_id"}, sizes=sizes.ERNIE
    ),
    # Lan et al. 2019, table 1 and appendix A.4: the releases' second version, without dropout.
    "albert": Family(
        name_map="albert",
        classes="Albert",
        causal_lm=None,
        tokenizer="unigram",
        template=InputTemplate(pad="<pad>", unknown="<unk>"),
        tokenizing={"do_lower_case": True, "keep_accents": False, "straight_quotes": True, "split_digit_comma": True},
        defaults={"embedding_size": 128, "num_hidden_groups": 1, "num_attention_heads": 64, "hidden_act": "gelu_tanh"}
        | {"hidden_size": 4096, "intermediate_size": 16384, "hidden_dropout_prob": 0.0}
        | {"attention_probs_dropout_prob": 0.0},
        fixed={"inner_group_num": 1, "maps_embeddings": True},
        keras_hub=KerasHub(
            "Albert",
            _HUB_TANH,
            _HUB_LM_TANH,
            keys={"embedding_dim": "embedding_size", "num_groups": "num_hidden_groups"}
            | {"num_inner_repetitions": "inner_group_num"},
        ),
        sizes=sizes.ALBERT,
    ),
    "roberta": _ROBERTA,
    # Wettig et al. 2022, "Should You Mask 15% in Masked Language Modeling?": RoBERTa with pre-LN.
    "roberta-prelayernorm": dataclasses.replace(
        _ROBERTA,
        name_map="roberta-prelayernorm",
        classes="RobertaPreLayerNorm",
        fixed={**_ROBERTA.fixed, "norm_first": True},
        keras_hub=None,
        sizes={},
    ),
    # Conneau et al. 2019: RoBERTa in a hundred languages; its tokens are at the ids that fairseq gave them.
    "xlm-roberta": dataclasses.replace(
        _ROBERTA,
        classes="XLMRoberta",
        tokenizer="unigram",
        tokenizing={"front": ("<s>", "<pad>", "</s>", "<unk>"), "behind": ("<mask>",)}
        | {"tokenizer_class": "XLMRobertaTokenizer"},
        keras_hub=KerasHub("XLMRoberta", _HUB_LM_ERF, _HUB_LM_ERF, has_segments=False),
        sizes=sizes.XLM_ROBERTA,
    ),
    # Warner et al. 2024. Released without dropout; Transformers has dropout between the maps of the feed-forward layer.
    "modernbert": Family(
        name_map="modernbert",
        classes="ModernBert",
        causal_lm=None,
        tokenizer="byte_bpe",
        tokenizing={"nfc": True, "tokenizer_class": "PreTrainedTokenizerFast"},
        template=InputTemplate(second_segment=0),
        keys={
            "norm_eps": "layer_norm_eps",
            "hidden_activation": "hidden_act",
            "classifier_activation": "classifier_act",
            "attention_dropout": "attention_probs_dropout_prob",
            "mlp_dropout": "hidden_dropout_prob",
        },
        defaults={"num_hidden_layers": 22, "intermediate_size": 1152, "max_position_embeddings": 8192}
        | {"layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        | {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 128}
        | {"global_attn_every_n_layers": 3, "norm_bias": False, "attention_bias": False, "mlp_bias": False}
        | {"classifier_bias": False, "classifier_pooling": "cls"},
        fixed={"type_vocab_size": 0, "has_pooler": False, "norm_first": True, "first_attention_norm": False}
        | {"gated_mlp": True, "head_norm": True, "classifier_act": "gelu", "decoder_bias": True},
        restate=_read_layer_types,
        restated=("layer_types", "rope_parameters"),
        sizes=sizes.MODERNBERT,
    ),
    # He et al. 2021 (version 2, and version 3, which was pretrained on replaced tokens).
    "deberta-v2": Family(
        name_map="deberta-v2",
        classes="DebertaV2",
        causal_lm=None,
        tokenizer="unigram",
        tokenizing={"behind": ("[MASK]",), "tokenizer_class": "DebertaV2Tokenizer"},
        keys={"pooler_hidden_act": "classifier_act"},
        defaults={"hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24, "intermediate_size": 6144}
        | {"layer_norm_eps": 1e-7, "type_vocab_size": 0, "classifier_act": "gelu", "pos_att_type": ()}
        | {"position_biased_input": True},
        fixed={"has_pooler": False, "relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
        | {"replaced_token_context": True},
        restate=_read_relative_positions,
        restated=("legacy", "conv_groups", "embedding_size", "pooler_hidden_size", "attention_head_size"),
        keras_hub=KerasHub(
            "DebertaV3",
            {"hidden_act": "gelu", "layer_norm_eps": 1e-7, "pos_att_type": ("c2p", "p2c")}
            | {"position_biased_input": False},
            _HUB_LM_ERF,
            has_segments=False,
            keys={"bucket_size": "position_buckets"},
            stated={name: supported for name, (supported, _) in _DISENTANGLED.items()},
        ),
        sizes=sizes.DEBERTA,
    ),
}


def family(model_type: str) -> Family:
    """Returns the model family of a `model_type`.

    Raises:
        ValueError: the family is not supported.
    """
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(
            f"model_type must be one of {sorted(FAMILIES)}. Received: {brief(model_type)}; use a model of one of these "
            "families."
        )
    return FAMILIES[model_type]


def with_tokenizer(kind: str) -> Family:
    """Returns the first family with that tokenizer."""
    return next(row for row in FAMILIES.values() if row.tokenizer == kind)


def published_sizes() -> list[str]:
    """Returns the names of all published sizes: "bert-tiny" to "bert-large", "bert-L4-H256", and so on."""
    return [name for row in FAMILIES.values() for name in row.sizes]


def size(name: str) -> dict[str, Any]:
    """Returns the `EncoderConfig` fields of the release called `name`; see `config.config_for`.

    Raises:
        ValueError: no release has that name.
    """
    for model_type, row in FAMILIES.items():
        if name in row.sizes:
            return row.read({"model_type": model_type, **row.sizes[name]})
    raise ValueError(f"The model size must be one of {published_sizes()}. Received: {name!r}.")
