"""The published sizes."""

import pytest

from bert_tf.config import config_for
from bert_tf.families import GRID, names

# From the papers: layers, width, heads, feed-forward.
PUBLISHED = {
    "bert-tiny": (2, 128, 2, 512),
    "bert-mini": (4, 256, 4, 1024),
    "bert-small": (4, 512, 8, 2048),
    "bert-medium": (8, 512, 8, 2048),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name):
    config = config_for(name)
    shape = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size)
    assert shape == PUBLISHED[name]
    numbers = (config.vocab_size, config.max_position_embeddings, config.type_vocab_size, config.hidden_act)
    assert numbers == (30522, 512, 2, "gelu_tanh")


def test_the_grid_of_24():
    assert len(set(GRID)) == 24
    for layers, hidden in GRID:
        config = config_for(f"bert-L{layers}-H{hidden}")
        assert (config.num_hidden_layers, config.hidden_size) == (layers, hidden)
        assert hidden / config.num_attention_heads == 64 and config.intermediate_size == 4 * hidden


def test_names():
    assert len(names()) == len(set(names())) == 31
    assert set(PUBLISHED) < set(names())
    same = {"bert-tiny": "bert-L2-H128", "bert-medium": "bert-L8-H512", "bert-base": "bert-L12-H768"}
    assert all(config_for(a) == config_for(b) for a, b in same.items())


def test_another_vocabulary():
    assert config_for("bert-base", vocab_size=28996).vocab_size == 28996


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"must be one of \['bert-tiny', .*\]. Received: 'bert-huge'\.$"):
        config_for("bert-huge")
