"""The sizes of published models: per family, a table from names to fields of `EncoderConfig`.

Omitted fields have the default of `EncoderConfig` or of the family's entry. Every number is that of the release's
configuration file; if that was not available, the table that quotes it is named.
"""


def _size(layers, hidden, heads=None, intermediate=None, vocab_size=30522, **others):
    """Returns the fields; by default, heads have width 64 and the feed-forward layer is four times as wide."""
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads or hidden // 64,
        "intermediate_size": intermediate or 4 * hidden,
        **others,
    }


_ERF = {"hidden_act": "gelu"}  # of models that were trained with PyTorch or Paddle, or say so in config.json

# The 24 small releases: every depth with every width, 64 numbers a head, a feed-forward layer four times as wide.
GRID = [(layers, hidden) for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)]
BERT = {
    # Devlin et al. 2018 (base, large); Turc et al. 2019, "Well-Read Students Learn Better", table 1 (the small ones).
    "bert-tiny": _size(2, 128),
    "bert-mini": _size(4, 256),
    "bert-small": _size(4, 512),
    "bert-medium": _size(8, 512),
    "bert-base": _size(12, 768),
    "bert-large": _size(24, 1024),
    **{f"bert-L{layers}-H{hidden}": _size(layers, hidden) for layers, hidden in GRID},
    # Wang et al. 2020: config.json of nreimers/MiniLM-L6-H384-uncased, which is microsoft/MiniLM-L12-H384-uncased
    # without every second layer; README of the latter.
    "minilm-L6-H384": _size(6, 384, heads=12, **_ERF),
    "minilm-L12-H384": _size(12, 384, heads=12, **_ERF),
    # Jiao et al. 2019, section 4: TinyBERT4 and TinyBERT6; PaddleNLP, transformers/tinybert/configuration.py.
    "tinybert-4L-312": _size(4, 312, heads=12, intermediate=1200, **_ERF),
    "tinybert-6L-768": _size(6, 768, **_ERF),
}

# Sanh et al. 2019: config.json of distilbert-base-uncased; model card of distilbert-base-multilingual-cased, which has
# the vocabulary of multilingual BERT, cased.
DISTILBERT = {
    "distilbert-base": _size(6, 768, **_ERF),
    "distilbert-base-multilingual": _size(6, 768, vocab_size=119547, **_ERF),
}

# Clark et al. 2020, table 6 of the appendix, and google-research/electra, configure_pretraining.py and
# util/training_utils.py: the discriminators. Embeddings of the small one are half as wide.
ELECTRA = {
    "electra-small": _size(12, 256, embedding_size=128, **_ERF),
    "electra-base": _size(12, 768, embedding_size=768, **_ERF),
    "electra-large": _size(24, 1024, embedding_size=1024, **_ERF),
}


def _ernie_3(layers, hidden, tasks=16):
    shape = _size(layers, hidden, heads=12, vocab_size=40000, max_position_embeddings=2048, type_vocab_size=4, **_ERF)
    return {**shape, "task_type_vocab_size": tasks, "use_task_id": True}


# PaddleNLP, transformers/ernie/configuration.py: its table, and its class for what the table leaves out (tasks).
_ERNIE_2 = {**_ERF, "type_vocab_size": 4, "task_type_vocab_size": 3, "use_task_id": True}
ERNIE = {
    "ernie-2.0-base-en": _size(12, 768, **_ERNIE_2),
    "ernie-2.0-large-en": _size(24, 1024, **_ERNIE_2),
    "ernie-3.0-base-zh": _ernie_3(12, 768, tasks=3),
    "ernie-3.0-medium-zh": _ernie_3(6, 768),
    "ernie-3.0-mini-zh": _ernie_3(6, 384),
    "ernie-3.0-micro-zh": _ernie_3(4, 384),
    "ernie-3.0-nano-zh": _ernie_3(4, 312),
}


def _albert(layers, hidden, heads):
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return _size(layers, hidden, heads, vocab_size=30000, hidden_act="gelu_tanh", **rates)


# Lan et al. 2019, table 1, and google-research/albert, config/base and config/large; PaddleNLP,
# transformers/albert/configuration.py. The second version was trained without dropout.
ALBERT = {
    "albert-base-v2": _albert(12, 768, 12),
    "albert-large-v2": _albert(24, 1024, 16),
    "albert-xlarge-v2": _albert(24, 2048, 16),
    "albert-xxlarge-v2": _albert(12, 4096, 64),
}

# Liu et al. 2019, table 9 of the appendix: config.json of roberta-base and of roberta-large. Two of the positions are
# those of padding.
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5, **_ERF}
ROBERTA = {"roberta-base": _size(12, 768, **_ROBERTA), "roberta-large": _size(24, 1024, **_ROBERTA)}

# Conneau et al. 2019, table 8 of the appendix: config.json of xlm-roberta-base and of xlm-roberta-large.
_XLM = {**_ROBERTA, "vocab_size": 250002}
XLM_ROBERTA = {"xlm-roberta-base": _size(12, 768, **_XLM), "xlm-roberta-large": _size(24, 1024, **_XLM)}

# Martin et al. 2020 (arXiv 1911.03894): config.json of almanach/camembert-base and camembert-large.
_CAMEMBERT = {**_ROBERTA, "vocab_size": 32005}
CAMEMBERT = {"camembert-base": _size(12, 768, **_CAMEMBERT), "camembert-large": _size(24, 1024, **_CAMEMBERT)}

# Liang et al. 2023 (arXiv 2301.10472): config.json of facebook/xlm-v-base, whose tokens are words of more languages.
XLM_V = {"xlm-v-base": _size(12, 768, **_ROBERTA | {"vocab_size": 901629})}

# Song et al. 2020 (arXiv 2004.09297): config.json of microsoft/mpnet-base and of models trained from it, such as
# sentence-transformers/all-mpnet-base-v2. The vocabulary is BERT's uncased one and five tokens.
MPNET = {"mpnet-base": _size(12, 768, vocab_size=30527, max_position_embeddings=514, layer_norm_eps=1e-5, **_ERF)}

# Warner et al. 2024 (arXiv 2412.13663), table 4 of the appendix: config.json of ModernBERT-base and -large.
MODERNBERT = {
    "modernbert-base": _size(22, 768, intermediate=1152, vocab_size=50368, **_ERF),
    "modernbert-large": _size(28, 1024, intermediate=2624, vocab_size=50368, **_ERF),
}


# Nussbaum et al. 2024 (arXiv 2402.01613): nomic-bert-2048, and nomic-embed-text-v1 and -v1.5 for longer texts.
_NOMIC = {"vocab_size": 30528, "hidden_act": "silu", "classifier_bias": False, "decoder_bias": False}
NOMIC_BERT = {
    "nomic-bert-2048": _size(12, 768, **_NOMIC),
    "nomic-embed-text": _size(12, 768, **_NOMIC, max_position_embeddings=8192),
}


def _gte(vocab_size, base, factor, **others):
    scaling = {"rope_theta": base, "rope_scaling": {"type": "ntk", "factor": factor}}
    return _size(12, 768, vocab_size=vocab_size, max_position_embeddings=8192, **scaling, **_ERF, **others)


# Zhang et al. 2024 (arXiv 2407.19669): config.json of gte-base-en-v1.5 and of gte-multilingual-base.
GTE = {
    "gte-base-en-v1.5": _gte(30528, 500000.0, 2.0, type_vocab_size=0),
    "gte-multilingual-base": _gte(250048, 20000.0, 8.0),
}


# He et al. 2021 (arXiv 2111.09543, section 4; version 2: arXiv 2006.03654): config.json of deberta-v3-xsmall, -small,
# -base, -large, mdeberta-v3-base, deberta-v2-xlarge and -xxlarge.
_DEBERTA = {
    **_ERF, "vocab_size": 128100, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 256,
    "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False,
}  # fmt: skip
DEBERTA = {
    "deberta-v3-xsmall": _size(12, 384, **_DEBERTA),
    "deberta-v3-small": _size(6, 768, **_DEBERTA),
    "deberta-v3-base": _size(12, 768, **_DEBERTA),
    "deberta-v3-large": _size(24, 1024, **_DEBERTA),
    "mdeberta-v3-base": _size(12, 768, **_DEBERTA | {"vocab_size": 251000}),
    "deberta-v2-xlarge": _size(24, 1536, **_DEBERTA, conv_kernel_size=3, conv_act="gelu"),
    "deberta-v2-xxlarge": _size(48, 1536, **_DEBERTA, conv_kernel_size=3, conv_act="gelu"),
}
