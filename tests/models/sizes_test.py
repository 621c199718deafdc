"""The published sizes: the numbers of the papers, names, files."""

import pytest

from bert_tf.models import sizes
from bert_tf.models.config import EncoderConfig, config_for
from bert_tf.models.family_registry import published_sizes

# From the papers: layers, width, heads, feed-forward; rows of the vocabulary.
PUBLISHED = {
    "bert-tiny": (2, 128, 2, 512, 30522),
    "bert-mini": (4, 256, 4, 1024, 30522),
    "bert-small": (4, 512, 8, 2048, 30522),
    "bert-medium": (8, 512, 8, 2048, 30522),
    "bert-base": (12, 768, 12, 3072, 30522),
    "bert-large": (24, 1024, 16, 4096, 30522),
    "minilm-L6-H384": (6, 384, 12, 1536, 30522),
    "minilm-L12-H384": (12, 384, 12, 1536, 30522),
    "tinybert-4L-312": (4, 312, 12, 1200, 30522),
    "tinybert-6L-768": (6, 768, 12, 3072, 30522),
    "distilbert-base": (6, 768, 12, 3072, 30522),
    "distilbert-base-multilingual": (6, 768, 12, 3072, 119547),
    "electra-small": (12, 256, 4, 1024, 30522),
    "electra-base": (12, 768, 12, 3072, 30522),
    "electra-large": (24, 1024, 16, 4096, 30522),
    "ernie-2.0-base-en": (12, 768, 12, 3072, 30522),
    "ernie-2.0-large-en": (24, 1024, 16, 4096, 30522),
    "ernie-3.0-base-zh": (12, 768, 12, 3072, 40000),
    "ernie-3.0-medium-zh": (6, 768, 12, 3072, 40000),
    "ernie-3.0-mini-zh": (6, 384, 12, 1536, 40000),
    "ernie-3.0-micro-zh": (4, 384, 12, 1536, 40000),
    "ernie-3.0-nano-zh": (4, 312, 12, 1248, 40000),
    "albert-base-v2": (12, 768, 12, 3072, 30000),
    "albert-large-v2": (24, 1024, 16, 4096, 30000),
    "albert-xlarge-v2": (24, 2048, 16, 8192, 30000),
    "albert-xxlarge-v2": (12, 4096, 64, 16384, 30000),
    "roberta-base": (12, 768, 12, 3072, 50265),
    "roberta-large": (24, 1024, 16, 4096, 50265),
    "xlm-roberta-base": (12, 768, 12, 3072, 250002),
    "xlm-roberta-large": (24, 1024, 16, 4096, 250002),
    "xlm-v-base": (12, 768, 12, 3072, 901629),
    "camembert-base": (12, 768, 12, 3072, 32005),
    "camembert-large": (24, 1024, 16, 4096, 32005),
    "mpnet-base": (12, 768, 12, 3072, 30527),
    "modernbert-base": (22, 768, 12, 1152, 50368),
    "modernbert-large": (28, 1024, 16, 2624, 50368),
    "nomic-bert-2048": (12, 768, 12, 3072, 30528),
    "nomic-embed-text": (12, 768, 12, 3072, 30528),
    "gte-base-en-v1.5": (12, 768, 12, 3072, 30528),
    "gte-multilingual-base": (12, 768, 12, 3072, 250048),
    "deberta-v3-xsmall": (12, 384, 6, 1536, 128100),
    "deberta-v3-small": (6, 768, 12, 3072, 128100),
    "deberta-v3-base": (12, 768, 12, 3072, 128100),
    "deberta-v3-large": (24, 1024, 16, 4096, 128100),
    "mdeberta-v3-base": (12, 768, 12, 3072, 251000),
    "deberta-v2-xlarge": (24, 1536, 24, 6144, 128100),
    "deberta-v2-xxlarge": (48, 1536, 24, 6144, 128100),
}
# What else the configurations of one family say.
BESIDE = {
    "bert-": {"max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu_tanh", "has_pooler": True},
    "minilm-": {"max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
    "tinybert-": {"max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"},
    "distilbert-": {"max_position_embeddings": 512, "type_vocab_size": 0, "hidden_act": "gelu", "has_pooler": False},
    "electra-": {"max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "has_pooler": False},
    "ernie-2": {"max_position_embeddings": 512, "type_vocab_size": 4, "task_type_vocab_size": 3, "hidden_act": "gelu"},
    "ernie-3": {"max_position_embeddings": 2048, "type_vocab_size": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
    "albert-": {"embedding_size": 128, "num_hidden_groups": 1, "hidden_act": "gelu_tanh", "hidden_dropout_prob": 0.0},
    "roberta-": {"max_length": 512, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"},
    "xlm-roberta-": {"max_length": 512, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"},
    "xlm-v-": {"max_length": 512, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "model_type": "xlm-roberta"},
    "camembert-": {"max_length": 512, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu"},
    "mpnet-": {"max_length": 512, "type_vocab_size": 0, "layer_norm_eps": 1e-5, "relative_attention_num_buckets": 32},
    "deberta-v3-": {"pos_att_type": ("p2c", "c2p"), "position_buckets": 256, "has_position_table": False},
    "mdeberta-v3-": {"pos_att_type": ("p2c", "c2p"), "position_buckets": 256, "has_position_table": False},
    "deberta-v2-": {"pos_att_type": ("p2c", "c2p"), "conv_kernel_size": 3, "conv_act": "gelu"},
    "nomic-bert-": {"max_length": 2048, "global_rope_theta": 1000, "type_vocab_size": 2, "hidden_act": "silu"},
    "nomic-embed-": {"max_length": 8192, "global_rope_theta": 1000, "type_vocab_size": 2, "hidden_dropout_prob": 0.0},
    "gte-base-": {"max_length": 8192, "global_rope_theta": 500000, "rope_ntk_factor": 2, "type_vocab_size": 0},
    "gte-multilingual-": {"max_length": 8192, "global_rope_theta": 20000, "rope_ntk_factor": 8, "type_vocab_size": 1},
    "modernbert-": {"max_length": 8192, "local_attention": 128, "global_attn_every_n_layers": 3, "norm_bias": False},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name):
    config = config_for(name)
    shape = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size)
    assert (*shape, config.vocab_size) == PUBLISHED[name]
    (beside,) = (fields for start, fields in BESIDE.items() if name.startswith(start))
    assert {field: getattr(config, field) for field in beside} == beside


def test_the_grid_of_24():
    assert len(set(sizes.GRID)) == 24
    for layers, hidden in sizes.GRID:
        config = config_for(f"bert-L{layers}-H{hidden}")
        assert (config.num_hidden_layers, config.hidden_size) == (layers, hidden)
        assert hidden / config.num_attention_heads == 64 and config.intermediate_size == 4 * hidden


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_size_is_written_and_read_again(name, tmp_path):
    config = config_for(name)
    config.save(tmp_path / "config.json")
    assert EncoderConfig.load(tmp_path) == config


def test_names():
    grid = {f"bert-L{layers}-H{hidden}" for layers, hidden in sizes.GRID}
    assert len(published_sizes()) == len(set(published_sizes())) and set(published_sizes()) == grid | set(PUBLISHED)
    assert [config_for(f"ernie-3.0-{size}-zh").task_type_vocab_size for size in ("base", "nano")] == [3, 16]
    assert [config_for(f"electra-{size}").embedding_width for size in ("small", "base", "large")] == [128, 768, 1024]
    same = {"bert-tiny": "bert-L2-H128", "bert-medium": "bert-L8-H512", "bert-base": "bert-L12-H768"}
    assert all(config_for(a) == config_for(b) for a, b in same.items())


def test_another_vocabulary():
    assert config_for("bert-base", vocab_size=28996).vocab_size == 28996


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"must be one of \['bert-tiny', .*\]; got 'bert-huge'\.$"):
        config_for("bert-huge")
