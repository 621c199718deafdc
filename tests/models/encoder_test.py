"""Embeddings, block and encoder: the harness, and that a sentence's answer does not depend on its batch or row."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.block import TransformerBlock
from bert_tf.models.config import EncoderConfig
from bert_tf.models.embeddings import Embeddings, restarting_positions
from bert_tf.models.encoder import Encoder
from bert_tf.models.training_ops import seed_scope
from tests import tiny
from tests.harness import check_layer, randomize
from tests.models import attention_test

pytestmark = pytest.mark.usefixtures("unfused")
# === Embeddings ===


EMBEDDINGS = {
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
ID_SEGMENTS = np.array([[0, 0, 1, 2], [0, 1, 1, 1]], np.int32)
ID_POSITIONS = np.array([[0, 1, 0, 1], [6, 5, 4, 3]], np.int32)


def test_the_harness_of_embeddings(tmp_path):
    weights = {
        "embeddings/word_embeddings": (11, 8),
        "embeddings/token_type_embeddings": (3, 8),
        "embeddings/position_embeddings": (7, 8),
        "embeddings/LayerNorm/gamma": (8,),
        "embeddings/LayerNorm/beta": (8,),
    }
    check_layer(Embeddings, EMBEDDINGS, (IDS, ID_SEGMENTS, ID_POSITIONS), weights, tmp_path)


@pytest.fixture
def embeddings():
    embeddings = Embeddings(**EMBEDDINGS)
    embeddings.build()
    randomize(embeddings)
    return embeddings


def test_lookup(embeddings):
    words, types, places = (
        w.numpy()
        for w in (embeddings.word_embeddings, embeddings.token_type_embeddings, embeddings.position_embeddings)
    )
    summed = words[IDS] + types[ID_SEGMENTS] + places[ID_POSITIONS]
    np.testing.assert_allclose(
        embeddings(IDS, ID_SEGMENTS, ID_POSITIONS), embeddings.norm(summed), rtol=1e-5, atol=1e-6
    )


def test_segments_and_positions_may_be_left_out(embeddings):
    zeros, counted = np.zeros_like(IDS), np.tile(np.arange(4, dtype=np.int32), (2, 1))
    np.testing.assert_allclose(embeddings(IDS), embeddings(IDS, zeros, counted), rtol=1e-6, atol=1e-6)


def test_rows_as_long_as_the_table_and_longer(embeddings):
    assert embeddings(np.ones((1, 7), np.int32)).shape == (1, 7, 8)
    with pytest.raises(ValueError, match="at most max_position_embeddings = 7 tokens; got 8; truncate"):
        embeddings(np.ones((1, 8), np.int32))
    packed = embeddings(np.ones((1, 8), np.int32), None, tf.constant([[0, 1, 2, 3, 0, 1, 2, 3]]))
    np.testing.assert_array_equal(packed[0, :4], packed[0, 4:])


def test_bfloat16_rounds_after_the_sum(embeddings):
    half = Embeddings(**EMBEDDINGS, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(embeddings.get_weights())
    half.word_embeddings.assign_add(100 * tf.ones((11, 8)))  # in bfloat16 the words themselves would be lost
    np.testing.assert_allclose(
        tf.cast(half(IDS, ID_SEGMENTS), tf.float32), embeddings(IDS, ID_SEGMENTS), rtol=0.01, atol=0.01
    )


def test_segments_beyond_the_table_are_refused(embeddings):
    message = "segment_ids must be from 0 to 2, because type_vocab_size is 3; got 0 to 3; omit them"
    with pytest.raises(ValueError, match=message):
        embeddings(IDS, ID_SEGMENTS + (ID_SEGMENTS == 2))
    with pytest.raises(ValueError, match="got -1 to 1"):
        embeddings(IDS, ID_SEGMENTS - 1)
    assert tf.function(embeddings)(IDS, ID_SEGMENTS + 1).shape == (2, 4, 8)  # in a graph it costs nothing


def test_without_segments():
    embeddings = Embeddings(**EMBEDDINGS | {"type_vocab_size": 0})
    embeddings.build()
    assert [v.path for v in embeddings.variables][:2] == [
        "embeddings/word_embeddings",
        "embeddings/position_embeddings",
    ]
    np.testing.assert_array_equal(embeddings(IDS, ID_SEGMENTS), embeddings(IDS))


def test_positions_may_begin_later(embeddings):
    later = Embeddings(**EMBEDDINGS | {"first_position": 2, "max_position_embeddings": 9})
    later.build()
    for mine, theirs in zip(later.variables, embeddings.variables, strict=True):
        mine.assign(np.pad(theirs, [(2, 0), (0, 0)]) if mine.path.endswith("position_embeddings") else theirs)
    np.testing.assert_array_equal(later(IDS, ID_SEGMENTS), embeddings(IDS, ID_SEGMENTS))
    np.testing.assert_array_equal(later(IDS, ID_SEGMENTS, ID_POSITIONS), embeddings(IDS, ID_SEGMENTS, ID_POSITIONS))
    with pytest.raises(ValueError, match="max_position_embeddings = 9 - first_position = 7 tokens; got 8"):
        later(np.ones((1, 8), np.int32))


# === Transformer block ===


X, BIAS = attention_test.X, attention_test.BIAS
BLOCK_WEIGHTS = {f"layer_0/{path}": shape for path, shape in attention_test.WEIGHTS.items()} | {
    "layer_0/intermediate/dense/kernel": (8, 12),
    "layer_0/intermediate/dense/bias": (12,),
    "layer_0/output/dense/kernel": (12, 8),
    "layer_0/output/dense/bias": (8,),
    "layer_0/output/LayerNorm/gamma": (8,),
    "layer_0/output/LayerNorm/beta": (8,),
}
BLOCK = {
    "num_heads": 2,
    "intermediate_size": 12,
    "hidden_act": "gelu",
    "attention_dropout": 0.1,
    "hidden_dropout": 0.2,
    "initializer_range": 0.05,
    "epsilon": 1e-6,
    "name": "layer_0",
}


@pytest.mark.slow
def test_the_harness_of_a_block(tmp_path):
    check_layer(TransformerBlock, BLOCK, (X, BIAS), BLOCK_WEIGHTS, tmp_path, unmoved=["key/bias"])


@pytest.mark.parametrize(("name", "act"), [("gelu", lambda x: tf.nn.gelu(x, False)), ("relu", tf.nn.relu)])
def test_feed_forward(name, act):
    block = TransformerBlock(**{**BLOCK, "hidden_act": name})
    block.build(X.shape)
    randomize(block)
    y, probs = block(X, BIAS, return_probs=True)
    np.testing.assert_array_equal(y, block(X, BIAS))
    assert probs.shape == (3, 2, 5, 5)
    (w1, b1), (w2, b2), (gamma, beta) = (p.get_weights() for p in (block.intermediate, block.dense, block.norm))
    x = block.attention(X, BIAS).numpy()
    z = x + act(x @ w1 + b1).numpy() @ w2 + b2
    z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-6) * gamma + beta
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)


# === Encoder ===


CONFIG = EncoderConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
SENTENCES = [[2, 7, 8, 9, 3], [2, 5, 3], [2, 11, 12, 13, 14, 15, 3]]
SEGMENTS = [[0, 0, 1, 1, 1], [0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]


def weights(layers=2):
    tables = {"word_embeddings": (30, 8), "token_type_embeddings": (2, 8), "position_embeddings": (10, 8)}
    result = {f"bert/embeddings/{name}": shape for name, shape in tables.items()}
    result |= {"bert/embeddings/LayerNorm/gamma": (8,), "bert/embeddings/LayerNorm/beta": (8,)}
    for n in range(layers):
        block = {p.removeprefix("layer_0"): shape for p, shape in BLOCK_WEIGHTS.items()}
        result |= {f"bert/encoder/layer_{n}{path}": shape for path, shape in block.items()}
    return result | {"bert/pooler/dense/kernel": (8, 8), "bert/pooler/dense/bias": (8,)}


def padded(length=9):
    """Returns SENTENCES as a batch, padded with a word so that a mask which is not looked at shows."""
    ids = np.full((3, length), 20, np.int32)
    mask, segments = np.zeros_like(ids), np.ones_like(ids)
    for row, (words, kinds) in enumerate(zip(SENTENCES, SEGMENTS, strict=True)):
        ids[row, : len(words)], mask[row, : len(words)], segments[row, : len(words)] = words, 1, kinds
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


@pytest.fixture(scope="module")
def encoder():
    encoder = Encoder(CONFIG)
    encoder.build()
    randomize(encoder)
    return encoder


@pytest.mark.slow
def test_the_harness_of_an_encoder(tmp_path):
    config = dataclasses.replace(CONFIG, num_hidden_layers=1)
    arguments = {"config": config.to_dict(), "gradient_checkpointing": False, "name": "bert"}
    check_layer(Encoder, arguments, (padded(),), weights(1), tmp_path, unmoved=["key/bias"], half_tolerance=0.05)


def test_outputs(encoder):
    outputs = encoder(padded())
    assert set(outputs) == {"sequence_output", "pooled_output", "embedding_output", "encoder_outputs"}
    assert [y.shape for y in outputs["encoder_outputs"]] == [(3, 9, 8)] * 2
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    kernel, bias = encoder.pooler.get_weights()
    pooled = np.tanh(outputs["sequence_output"][:, 0] @ kernel + bias)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, rtol=1e-5, atol=1e-6)


def test_attention_probs_on_request(encoder):
    outputs = encoder(padded(), return_attention_probs=True)
    np.testing.assert_allclose(outputs["pooled_output"], encoder(padded())["pooled_output"], atol=1e-6)
    assert [p.shape for p in outputs["attention_probs"]] == [(3, 2, 9, 9)] * 2
    for probs in outputs["attention_probs"]:
        np.testing.assert_allclose(tf.reduce_sum(probs, -1), np.ones((3, 2, 9)), rtol=1e-5)
        assert (probs.numpy()[1, :, :, 3:] == 0).all()


def test_attention_probs_of_a_symbolic_call():
    ids = keras.Input((None,), dtype="int32")
    outputs = Encoder(CONFIG)({"input_ids": ids}, return_attention_probs=True)
    probs = keras.Model(ids, outputs["attention_probs"])(np.array([[2, 5, 3]]))
    assert outputs["attention_probs"][0].shape == (None, 2, None, None)
    assert [p.shape for p in probs] == [(1, 2, 3, 3)] * 2


def test_a_mask_of_heads_and_vectors_in_place_of_embeddings(encoder):
    plain, mask = encoder(padded(), return_attention_probs=True), [np.array([1.0, 0.0]), np.ones(2)]
    masked = encoder(padded(), return_attention_probs=True, head_mask=mask)
    assert not masked["attention_probs"][0][:, 1].numpy().any()
    np.testing.assert_array_equal(masked["attention_probs"][0][:, 0], plain["attention_probs"][0][:, 0])
    assert np.abs(masked["pooled_output"] - plain["pooled_output"]).max() > 1e-3
    vectors = encoder.embeddings(padded()["input_ids"], padded()["segment_ids"])
    np.testing.assert_array_equal(encoder(padded(), input_vectors=vectors)["pooled_output"],
                                  encoder(padded())["pooled_output"])  # fmt: skip
    changed = encoder(padded(), input_vectors=vectors[:, ::-1])["embedding_output"]
    np.testing.assert_array_equal(changed, vectors[:, ::-1])


def test_alone_equals_in_a_padded_batch(encoder):
    batch = encoder(padded())
    for row, (words, kinds) in enumerate(zip(SENTENCES, SEGMENTS, strict=True)):
        alone = encoder({"input_ids": np.array([words]), "segment_ids": np.array([kinds])})
        for name in ("sequence_output", "pooled_output"):
            ours = batch[name][row, : len(words)] if name == "sequence_output" else batch[name][row]
            np.testing.assert_allclose(ours, alone[name][0], rtol=1e-5, atol=1e-5)


def test_alone_equals_in_a_packed_row(encoder):
    """The row is longer than the position table: positions start again with each sentence."""
    words, kinds = sum(SENTENCES, []) + [20, 20], sum(SEGMENTS, []) + [1, 1]
    numbers = [n for n, s in enumerate(SENTENCES, 1) for _ in s] + [0, 0]
    row = {
        "input_ids": words,
        "segment_ids": kinds,
        "sentence_ids": numbers,
        "input_mask": [int(n > 0) for n in numbers],
    }
    row = {name: np.array([values], np.int32) for name, values in row.items()}
    without_mask = {name: value for name, value in row.items() if name != "input_mask"}
    for inputs in (row, without_mask):
        y, start = encoder(inputs)["sequence_output"][0], 0
        for sentence, segments in zip(SENTENCES, SEGMENTS, strict=True):
            alone = encoder({"input_ids": np.array([sentence]), "segment_ids": np.array([segments])})
            end = start + len(sentence)
            np.testing.assert_allclose(y[start:end], alone["sequence_output"][0], rtol=1e-5, atol=1e-5)
            start = end


def test_packing_is_needed(encoder):
    """What the test above proves is not true of rows in which sentences merely follow each other."""
    row = np.array([SENTENCES[0] + SENTENCES[1]])
    together = encoder({"input_ids": row})["sequence_output"][0, :5]
    alone = encoder({"input_ids": np.array([SENTENCES[0]])})["sequence_output"][0]
    assert np.abs(together - alone).max() > 0.01


def test_restarting_positions():
    sentence_ids = tf.constant([[1, 1, 1, 2, 2, 0, 0], [1, 2, 3, 3, 3, 3, 4]])
    positions = [[0, 1, 2, 0, 1, 0, 0], [0, 0, 0, 1, 2, 3, 0]]
    assert restarting_positions(sentence_ids).numpy().tolist() == positions


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "XLA"])
def test_positions_of_odd_packings(jit_compile):
    """Examples of one token, ids with gaps, padding at either end and between, and rows of padding alone."""
    rng, call = np.random.default_rng(0), restarting_positions
    if jit_compile is not None:
        call = tf.function(call, input_signature=[tf.TensorSpec([None, None], tf.int32)], jit_compile=jit_compile)
    for size in (1, 2, 13):
        rows, expected = [], []
        for _ in range(20):
            ids, positions, number = [], [], 0
            while len(ids) < size:
                length, is_padding = int(rng.integers(1, 6)), rng.random() < 0.3
                number += int(rng.integers(1, 4))
                ids += [0 if is_padding else number] * length
                positions += [0] * length if is_padding else range(length)
            rows.append(ids[:size])
            expected.append(positions[:size])
        rows[0], expected[0] = [0] * size, [0] * size
        found = call(tf.constant(rows, tf.int32))
        assert found.dtype == tf.int32 and found.numpy().tolist() == expected
    assert call(tf.zeros([0, 3], tf.int32)).shape == (0, 3)


def test_positions_take_no_memory_for_each_pair_of_tokens():
    sentence_ids = tf.repeat([[1, 2]], 50_000, axis=1)  # 40 GB for all pairs
    assert restarting_positions(sentence_ids)[0, ::25_000].numpy().tolist() == [0, 25_000, 0, 25_000]


def test_mask_and_segments_may_be_left_out(encoder):
    ids = padded()["input_ids"]
    whole = encoder({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})
    np.testing.assert_array_equal(encoder({"input_ids": ids})["sequence_output"], whole["sequence_output"])
    marked = encoder({"input_ids": ids, "segment_ids": np.ones_like(ids)})["sequence_output"]
    assert np.abs(marked - whole["sequence_output"]).max() > 0.01


def _loss(encoder, seed=(1, 2), training=True):
    with seed_scope(tf.constant(seed)):
        outputs = encoder(padded(), training=training)
    return tf.reduce_sum(outputs["sequence_output"] ** 3) + tf.reduce_sum(outputs["pooled_output"])


def test_dropout_is_a_function_of_the_seed(encoder):
    loss = _loss(encoder)
    assert _loss(encoder) == loss
    # To the bit: how far apart the sums of two masks are is chance.
    assert _loss(encoder, (1, 3)) != loss
    assert _loss(encoder, training=False) != loss


def test_every_dropout_has_its_own_masks(encoder):
    """Sites of one width that drew alike would drop the same neurons in every layer."""
    blocks = [d for b in encoder.blocks for d in (b.attention.attention_dropout, b.attention.hidden_dropout, b.dropout)]
    sites = [int(dropout.site) for dropout in (encoder.embeddings.dropout, *blocks)]
    assert len(set(sites)) == len(sites) == 7


def test_a_frozen_encoder_stays_frozen():
    """Also the layers that are made when it is built, after `trainable` was set; and after saving."""
    encoder = Encoder(CONFIG)
    encoder.trainable = False
    for model in (encoder, Encoder.from_config(encoder.get_config()), Encoder(CONFIG, trainable=False)):
        model.build()
        assert model.variables and not any(v.trainable for v in model.variables)


def test_a_frozen_encoder_drops_nothing_in_training():
    frozen = Encoder(tiny.config(dropout=0.5), trainable=False)
    ids = {"input_ids": np.array([[2, 5, 9, 3]], np.int32)}
    np.testing.assert_array_equal(frozen(ids, training=True)["sequence_output"], frozen(ids)["sequence_output"])
    assert not frozen.trainable_variables
