"""The sum of three tables."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.embeddings import Embeddings
from tests.harness import check_layer, randomize

ARGUMENTS = {
    "vocab_size": 11,
    "hidden_size": 8,
    "max_position_embeddings": 7,
    "type_vocab_size": 3,
    "dropout": 0.1,
    "initializer_range": 0.05,
    "epsilon": 1e-6,
    "name": "embeddings",
}
IDS = np.array([[1, 5, 10, 0], [10, 10, 2, 3]], np.int32)
SEGMENTS = np.array([[0, 0, 1, 2], [0, 1, 1, 1]], np.int32)
POSITIONS = np.array([[0, 1, 0, 1], [6, 5, 4, 3]], np.int32)


def test_harness(tmp_path):
    weights = {
        "embeddings/word_embeddings": (11, 8),
        "embeddings/token_type_embeddings": (3, 8),
        "embeddings/position_embeddings": (7, 8),
        "embeddings/LayerNorm/gamma": (8,),
        "embeddings/LayerNorm/beta": (8,),
    }
    check_layer(Embeddings, ARGUMENTS, (IDS, SEGMENTS, POSITIONS), weights, tmp_path)


@pytest.fixture
def layer():
    layer = Embeddings(**ARGUMENTS)
    layer.build()
    randomize(layer)
    return layer


def test_lookup(layer):
    words, types, places = (
        w.numpy() for w in (layer.word_embeddings, layer.token_type_embeddings, layer.position_embeddings)
    )
    summed = words[IDS] + types[SEGMENTS] + places[POSITIONS]
    np.testing.assert_allclose(layer(IDS, SEGMENTS, POSITIONS), layer.norm(summed), rtol=1e-5, atol=1e-6)


def test_segments_and_positions_may_be_left_out(layer):
    zeros, counted = np.zeros_like(IDS), np.tile(np.arange(4, dtype=np.int32), (2, 1))
    np.testing.assert_allclose(layer(IDS), layer(IDS, zeros, counted), rtol=1e-6, atol=1e-6)


def test_rows_as_long_as_the_table_and_longer(layer):
    assert layer(np.ones((1, 7), np.int32)).shape == (1, 7, 8)
    with pytest.raises(ValueError, match="at most max_position_embeddings = 7 tokens. Received: 8; truncate"):
        layer(np.ones((1, 8), np.int32))
    packed = layer(np.ones((1, 8), np.int32), None, tf.constant([[0, 1, 2, 3, 0, 1, 2, 3]]))
    np.testing.assert_array_equal(packed[0, :4], packed[0, 4:])


def test_bfloat16_rounds_after_the_sum(layer):
    half = Embeddings(**ARGUMENTS, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(layer.get_weights())
    half.word_embeddings.assign_add(100 * tf.ones((11, 8)))  # in bfloat16 the words themselves would be lost
    np.testing.assert_allclose(tf.cast(half(IDS, SEGMENTS), tf.float32), layer(IDS, SEGMENTS), rtol=0.01, atol=0.01)


def test_segments_beyond_the_table_are_refused(layer):
    message = "segment_ids must be from 0 to 2, for type_vocab_size is 3. Received: 0 to 3; leave them out"
    with pytest.raises(ValueError, match=message):
        layer(IDS, SEGMENTS + (SEGMENTS == 2))
    with pytest.raises(ValueError, match="Received: -1 to 1"):
        layer(IDS, SEGMENTS - 1)
    assert tf.function(layer)(IDS, SEGMENTS + 1).shape == (2, 4, 8)  # in a graph it costs nothing


def test_without_segments():
    layer = Embeddings(**ARGUMENTS | {"type_vocab_size": 0})
    layer.build()
    assert [v.path for v in layer.variables][:2] == ["embeddings/word_embeddings", "embeddings/position_embeddings"]
    np.testing.assert_array_equal(layer(IDS, SEGMENTS), layer(IDS))


def test_positions_may_begin_later(layer):
    later = Embeddings(**ARGUMENTS | {"first_position": 2, "max_position_embeddings": 9})
    later.build()
    for mine, theirs in zip(later.variables, layer.variables, strict=True):
        mine.assign(np.pad(theirs, [(2, 0), (0, 0)]) if mine.path.endswith("position_embeddings") else theirs)
    np.testing.assert_array_equal(later(IDS, SEGMENTS), layer(IDS, SEGMENTS))
    np.testing.assert_array_equal(later(IDS, SEGMENTS, POSITIONS), layer(IDS, SEGMENTS, POSITIONS))
    with pytest.raises(ValueError, match="max_position_embeddings = 9 - first_position = 7 tokens. Received: 8"):
        later(np.ones((1, 8), np.int32))
