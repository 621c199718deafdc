"""Model families: one entry each for configuration keys, published sizes, tokenizer, input template and weight names.

Code tests the settings of an `EncoderConfig`, never which family it is. Entries are looked up when needed, so that one
added to FAMILIES takes effect everywhere.
"""

import dataclasses
from typing import Any

from bert_tf.models import family_keys, sizes
from bert_tf.models.family_spec import Family, InputTemplate, KerasHub
from bert_tf.utils.files import brief

DEFAULT = "bert"  # family of configurations without `model_type`, such as google-research/bert's

# Settings of KerasHub's layers: BERT's approximate GELU or the exact one, and LayerNorm's epsilon.
_HUB_TANH = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}
_HUB_ERF = {"hidden_act": "gelu", "layer_norm_eps": 1e-12}
_HUB_LM_TANH = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-5}
_HUB_LM_ERF = {"hidden_act": "gelu", "layer_norm_eps": 1e-5}

# Liu et al. 2019. One segment, and positions that start after that of padding.
_ROBERTA = Family(
    weight_mapping="roberta",
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
        weight_mapping="bert",
        sentence_objective="nsp",
        causal_lm="LMHeadModel",
        keras_hub=KerasHub("Bert", _HUB_TANH, _HUB_LM_ERF),
        sizes=sizes.BERT,
    ),
    # Sanh et al. 2019. It also has no dropout on the attention output, so training
    # differs slightly from Transformers; inference is identical.
    "distilbert": Family(
        weight_mapping="distilbert",
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
        weight_mapping="electra",
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
        weight_mapping="ernie",
        classes="Ernie",
        sentence_objective="nsp",
        switches={"task_type_vocab_size": "use_task_id"},
        sizes=sizes.ERNIE,
    ),
    # Lan et al. 2019, table 1 and appendix A.4: the releases' second version, without dropout.
    "albert": Family(
        weight_mapping="albert",
        classes="Albert",
        sentence_objective="sop",
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
        weight_mapping="roberta-prelayernorm",
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
        sizes={**sizes.XLM_ROBERTA, **sizes.XLM_V},
    ),
    # Martin et al. 2020: RoBERTa in French. Its vocabulary has <unk> twice, and <s> and </s> are tokens of the model.
    "camembert": dataclasses.replace(
        _ROBERTA,
        classes="Camembert",
        tokenizer="unigram",
        tokenizing={"front": ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), "behind": ("<mask>",)}
        | {"replaces": 1, "tokenizer_class": "CamembertTokenizer"},
        keras_hub=None,
        sizes=sizes.CAMEMBERT,
    ),
    # Song et al. 2020: positions are biases of attention, too. Transformers ignores the number of their buckets and
    # the padding id in config.json.
    "mpnet": dataclasses.replace(
        _ROBERTA,
        weight_mapping="mpnet",
        classes="MPNet",
        causal_lm=None,
        tokenizer="wordpiece",
        tokenizing={"tokenizer_class": "MPNetTokenizer"},
        template=dataclasses.replace(_ROBERTA.template, unknown="[UNK]"),
        fixed={**_ROBERTA.fixed, "type_vocab_size": 0, "relative_attention_num_buckets": 32, "first_position": 2},
        keras_hub=None,
        sizes=sizes.MPNET,
    ),
    # Warner et al. 2024. Released without dropout; Transformers has dropout between the maps of the feed-forward layer.
    "modernbert": Family(
        weight_mapping="modernbert",
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
        | {"classifier_bias": False, "decoder_bias": True, "classifier_pooling": "cls"},
        fixed={"type_vocab_size": 0, "has_pooler": False, "norm_first": True, "first_attention_norm": False}
        | {"gated_mlp": True, "head_norm": True, "classifier_act": "gelu"},
        restate=family_keys.read_layer_types,
        restated=("layer_types", "rope_parameters"),
        sizes=sizes.MODERNBERT,
    ),
    # Nussbaum et al. 2024 (arXiv 2402.01613, section 3.1). Its published code, which is never run, scales positions in
    # texts that are longer than those of training.
    "nomic_bert": Family(
        weight_mapping="nomic_bert",
        classes="NomicBert",
        causal_lm=None,
        keys={
            "n_embd": "hidden_size",
            "n_layer": "num_hidden_layers",
            "n_head": "num_attention_heads",
            "n_inner": "intermediate_size",
            "n_positions": "max_position_embeddings",
            "resid_pdrop": "hidden_dropout_prob",
            "attn_pdrop": "attention_probs_dropout_prob",
            "layer_norm_epsilon": "layer_norm_eps",
            "rotary_emb_base": "global_rope_theta",
            "qkv_proj_bias": "attention_bias",
            "mlp_fc2_bias": "mlp_bias",
        },
        defaults={"max_position_embeddings": 2048, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        | {"global_rope_theta": 1000.0, "classifier_bias": False, "decoder_bias": False},
        fixed={"hidden_act": "silu", "gated_mlp": True, "attention_bias": False, "mlp_bias": False}
        | {"activation_function": "swiglu", "mlp_fc1_bias": False, "rotary_emb_fraction": 1.0}
        | {"rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "prenorm": False, "use_rms_norm": False}
        | {"parallel_block": False, "parallel_block_tied_norm": False, "causal": False},
        restate=family_keys.read_gpt2_keys,
        restated=("rope_parameters", "head_dim", "pad_vocab_size_multiple", "rotary_scaling_factor")
        + ("max_trained_positions",),
        write_back=family_keys.write_gpt2_keys,
        sizes=sizes.NOMIC_BERT,
    ),
    # Zhang et al. 2024 (arXiv 2407.19669, section 2.1): GTE version 1.5 and multilingual GTE. Its published code, which
    # is never run, also has dropout between the maps of the feed-forward layer.
    "new": Family(
        weight_mapping="new",
        classes="New",
        causal_lm=None,
        keys={"rope_theta": "global_rope_theta"},
        defaults={"attention_probs_dropout_prob": 0.0, "max_position_embeddings": 2048, "type_vocab_size": 1}
        | {"global_rope_theta": 10000.0, "rope_ntk_factor": None},
        fixed={"gated_mlp": True, "mlp_input_bias": False, "position_embedding_type": "rope"}
        | {"layer_norm_type": "layer_norm", "logn_attention_scale": False, "logn_attention_clip1": False},
        restate=family_keys.read_ntk_scaling,
        restated=("rope_scaling",),
        write_back=family_keys.write_ntk_scaling,
        sizes=sizes.GTE,
    ),
    # He et al. 2021 (version 2, and version 3, which was pretrained on replaced tokens).
    "deberta-v2": Family(
        weight_mapping="deberta-v2",
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
        restate=family_keys.read_relative_positions,
        restated=("legacy", "conv_groups", "embedding_size", "pooler_hidden_size", "attention_head_size"),
        keras_hub=KerasHub(
            "DebertaV3",
            {"hidden_act": "gelu", "layer_norm_eps": 1e-7, "pos_att_type": ("c2p", "p2c")}
            | {"position_biased_input": False},
            _HUB_LM_ERF,
            has_segments=False,
            keys={"bucket_size": "position_buckets"},
            stated={name: supported for name, (supported, _) in family_keys.DISENTANGLED.items()},
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
            f"model_type must be one of {sorted(FAMILIES)}; got {brief(model_type)}; use a model of one of these "
            "families."
        )
    return FAMILIES[model_type]


def with_tokenizer(kind: str) -> Family:
    """Returns the first family with that tokenizer; BERT if no family has it as its own, as with MeCab."""
    return next((row for row in FAMILIES.values() if row.tokenizer == kind), FAMILIES[DEFAULT])


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
    raise ValueError(f"The model size must be one of {published_sizes()}; got {name!r}.")
