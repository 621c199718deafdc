"""Rotary positions and local attention: what a token sees, in blocks as in whole rows; settings that go together."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.cpu.encoder import FastEncoder
from bert_tf.export.cpu.products import Floats
from bert_tf.models import family_registry, local_attention
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.rotary_positions import rotate, rotation
from tests import tiny
from tests.harness import randomize

pytestmark = pytest.mark.usefixtures("unfused")
ROTARY = {"global_rope_theta": 100.0, "type_vocab_size": 0}
LOCAL = {"local_attention": 4, "local_rope_theta": 10.0, "global_attn_every_n_layers": 2, "num_hidden_layers": 3}
MODERN = {**ROTARY, **LOCAL, "norm_first": True, "first_attention_norm": False, "gated_mlp": True, "norm_bias": False,
          "attention_bias": False, "mlp_bias": False, "hidden_act": "gelu", "has_pooler": False}  # fmt: skip
LEFT = {**LOCAL, "local_rope_theta": None, "is_decoder": True}


def _encoder(**changes):
    encoder = Encoder(tiny.config(**changes))
    encoder.build()
    randomize(encoder)
    return encoder


def _row(length, *more, seed=0):
    ids = np.random.default_rng(seed).integers(4, len(tiny.VOCAB), (2, length)).astype(np.int32)
    mask = (np.arange(length) < np.array([[length], [max(1, length - 3)]])).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, **dict(more)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [pytest.param(MODERN, marks=pytest.mark.slow), LEFT], ids=["all", "left"]
)
def test_blocks_compute_what_masked_rows_do(changes):
    encoder = _encoder(**changes)
    features = ("input_ids", "input_mask", "sentence_ids")
    graph = tf.function(encoder, [{name: tf.TensorSpec([None, None], tf.int32) for name in features}])
    for length in (1, 16, 17, 18, 23):
        inputs = _row(length)
        inputs["sentence_ids"] = np.minimum(np.arange(length) // 6, 3).astype(np.int32) + inputs["input_mask"]
        whole, seen = encoder(inputs, return_attention_probs=True), inputs["input_mask"] > 0
        blocks = graph(inputs)["sequence_output"].numpy()
        np.testing.assert_allclose(blocks[seen], whole["sequence_output"].numpy()[seen], atol=1e-5)
        del inputs["sentence_ids"]
        whole = encoder(inputs, return_attention_probs=True)
        blocks = encoder(inputs)["sequence_output"].numpy()
        np.testing.assert_allclose(blocks[seen], whole["sequence_output"].numpy()[seen], atol=1e-5)
        for n, probs in enumerate(whole["attention_probs"]):
            distance = np.abs(np.arange(length)[:, None] - np.arange(length))
            farthest = distance[probs.numpy()[0].max(0) > 1e-6].max()
            assert farthest <= 2 if n == 1 else farthest > 2 or length == 1


@pytest.mark.slow
def test_gradients_through_blocks_with_heads_switched_off_and_recomputed():
    encoder, inputs = _encoder(**MODERN), _row(30)
    heads = [tf.constant([1.0, 0.5])] * 3
    found = []
    for options in ({}, {"return_attention_probs": True}, {"gradient_checkpointing": True}):
        encoder.gradient_checkpointing = options.pop("gradient_checkpointing", False)
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True, head_mask=heads, **options)["sequence_output"]
            loss = tf.reduce_sum(tf.where(inputs["input_mask"][..., None] > 0, outputs, 0.0) ** 3)
        gradients = tape.gradient(loss, [v.value for v in encoder.variables])
        found.append([tf.convert_to_tensor(each).numpy() for each in gradients])
    for one, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max())


def test_a_long_row_computes_no_scores_beyond_its_blocks():
    """Local attention of 4 in a row of 4,000 tokens: a score for each pair would be 16 million numbers a head."""
    blocks = local_attention.Blocks.of(tf.constant(4000), 4)
    x = tf.zeros([1, 2, 4000, 8])
    assert blocks.queries(x).shape == (1, 2, 2000, 2, 8) and blocks.keys(x).shape == (1, 2, 2000, 6, 8)
    assert local_attention.seen_by_local(4000, 4) == 6 and local_attention.seen_by_local(16, 4) == 16
    bias = local_attention.local_bias(blocks, 4, tf.ones([1, 4000], tf.int32))
    assert bias.shape == (1, 1, 2000, 2, 6)
    np.testing.assert_array_equal(bias[0, 0, 0] == 0, [[0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1]])
    np.testing.assert_array_equal(bias[0, 0, 7] == 0, [[1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]])


def test_gradients_of_blocks_are_those_of_their_slices():
    """Also that they are taken without StridedSliceGrad, which is ten times as slow on a CPU."""
    rng, window = np.random.default_rng(0), 4

    def run(x, size):
        blocks = local_attention.Blocks.of(tf.shape(x)[2], window)
        reach = blocks.reach
        with tf.GradientTape() as tape:
            tape.watch(x)
            keys, joined = blocks.keys(x), blocks.join(blocks.queries(x * x))
            loss = tf.reduce_sum(keys**3 * size) + tf.reduce_sum(joined**2)
        found = tape.gradient(loss, x)
        assert "StridedSliceGrad" not in {op.type for op in found.graph.get_operations()}
        with tf.GradientTape() as tape:
            tape.watch(x)
            rest = blocks.number * blocks.size - blocks.length
            padded = tf.pad(x, [[0, 0], [0, 0], [reach, rest + reach], [0, 0]])
            parts = tf.range(blocks.number)[:, None] * blocks.size + tf.range(blocks.size + 2 * reach)
            plain = tf.gather(padded, parts, axis=2)
            loss = tf.reduce_sum(plain**3 * size) + tf.reduce_sum(x**4)
        return keys, found, plain, tape.gradient(loss, x)

    graph = tf.function(run, [tf.TensorSpec([None, 2, None, 3]), tf.TensorSpec([None, None, None, None, 1])])
    for length in (1, 7, 16, 17, 18, 23):
        blocks = local_attention.Blocks.of(tf.constant(length), window)
        weights = rng.normal(size=(1, 1, int(blocks.number), int(blocks.size + 2 * blocks.reach), 1))
        x = rng.normal(size=(2, 2, length, 3)).astype(np.float32)
        keys, found, plain, expected = graph(x, weights.astype(np.float32))
        np.testing.assert_array_equal(keys, plain)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_rotary_positions_are_relative():
    x, y = np.random.default_rng(0).normal(size=(2, 1, 1, 5, 6)).astype(np.float32)
    scores = []
    for first in (0, 100):
        turn = rotation(tf.range(first, first + 5)[None], 6, 100.0)
        scores.append(tf.matmul(*(rotate(each, *turn) for each in (x, y)), transpose_b=True).numpy())
    np.testing.assert_allclose(*scores, atol=1e-4)
    assert np.abs(scores[0] - x @ np.swapaxes(y, -1, -2)).max() > 0.1


def test_packed_rows_are_as_their_parts_alone():
    encoder = _encoder(**MODERN)
    ids = _row(26)["input_ids"][:1]
    sentences = np.repeat([[1, 2, 3, 0]], [9, 4, 12, 1], axis=1).astype(np.int32)
    mask = (sentences > 0).astype(np.int32)
    together = encoder({"input_ids": ids, "input_mask": mask, "sentence_ids": sentences})["sequence_output"][0]
    for part in (slice(0, 9), slice(9, 13), slice(13, 25)):
        alone = encoder({"input_ids": ids[:, part]})["sequence_output"][0]
        np.testing.assert_allclose(together[part], alone, atol=1e-5)


def test_variables():
    paths = {v.path for v in _encoder(**MODERN).variables}
    assert not any(path.endswith(("/bias", "/beta")) or "position" in path for path in paths)
    assert "bert/encoder/layer_0/attention/LayerNorm/gamma" not in paths
    assert "bert/encoder/layer_1/attention/LayerNorm/gamma" in paths
    again = Encoder.from_config(_encoder(**MODERN).get_config())
    again.build()
    assert {v.path for v in again.variables} == paths


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"local_attention": 5}, "local_attention requires an even width, with as many tokens on each side.* 5"),
        ({"local_attention": 0}, "local_attention must be a positive integer; got 0"),
        ({"global_attn_every_n_layers": 3}, "global_attn_every_n_layers requires local_attention.* none"),
        ({"local_attention": 4, "local_rope_theta": 9.0}, "local_rope_theta requires global_rope_theta.* none"),
        ({"global_rope_theta": 9.0, "hidden_size": 30, "num_attention_heads": 10}, "even width.* heads of width 3"),
        ({"global_rope_theta": 9.0, "first_position": 2}, "positions from 0; got first_position=2"),
        ({"global_rope_theta": -1.0}, "global_rope_theta must be a positive number; got -1.0"),
        ({"first_attention_norm": False}, "first_attention_norm=False requires norm_first.* norm_first=False"),
        ({"local_attention": 4, "num_hidden_layers": 4, "num_hidden_groups": 2}, "layers with their own weights"),
        ({"head_norm": True}, "head_norm requires classifier_act; got none"),
        ({"gated_mlp": 1}, "gated_mlp must be true or false; got 1"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny.config(**changes)


def _modernbert(**changes):
    return {"model_type": "modernbert", "vocab_size": 9, "hidden_size": 12, "num_attention_heads": 2, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"local_attention": 127}, "local_attention requires an even width"),
        ({"classifier_pooling": "max"}, "classifier_pooling must be cls or mean; got 'max'"),
        ({"classifier_activation": "relu"}, "classifier_activation must be 'gelu' or absent for this model_type."),
        ({"hidden_activation": "mish"}, r"hidden_activation must be one of .*; got 'mish'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling must be null or absent, because"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}},
         "rope_parameters must have the rope_type default, because bert_tf does not scale positions; got {'rope_"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 5}},
         "rope_parameters must have the rope_type default, because bert_tf does not scale positions; got {'factor"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5}},
         "rope_parameters must contain rope_theta for each of full_attention and sliding_attention; got {'rope_t"),
        ({"rope_parameters": 5}, "rope_parameters must contain rope_theta for each of .* got 5; write"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}},
         "rope_parameters must contain rope_theta for full_attention; got {'rope_type': 'default'}; add it."),
        ({"rope_parameters": {"sliding_attention": {"rope_theta": 5.0, "factor": 4}}},
         "rope_parameters must have only rope_type and rope_theta for sliding_attention; also got factor, which"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "layer_types must be full_attention in every nth"),
        ({"layer_types": "all"}, "layer_types must be full_attention in every nth layer from the first on"),
        ({"layer_types": [["a"]]}, r"layer_types must be full_attention in every nth .* got \[\['a'\]\], which"),
        ({"layer_types": ["full_attention"], "num_hidden_layers": 6},
         "layer_types must have one entry for each layer, and num_hidden_layers is 6; got a list of 1; "),
        ({"layer_types": ["full_attention"]}, "for each layer, and num_hidden_layers is 22; got a list of 1; "),
    ],
)  # fmt: skip
def test_files_of_modernbert_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        EncoderConfig.from_dict(_modernbert(**changes))


def test_files_of_both_versions_of_transformers_mean_the_same():
    old = EncoderConfig.from_dict(_modernbert(num_hidden_layers=7, global_rope_theta=500.0, local_rope_theta=20.0))
    kinds = ["sliding_attention" if n % 3 else "full_attention" for n in range(7)]
    rope = {kind: {"rope_type": "default", "rope_theta": theta}
            for kind, theta in (("full_attention", 500.0), ("sliding_attention", 20.0))}  # fmt: skip
    new = EncoderConfig.from_dict(_modernbert(num_hidden_layers=7, layer_types=kinds, rope_parameters=rope))
    assert new == old and EncoderConfig.from_dict(new.to_dict()) == new
    assert [new.is_local(n) for n in range(4)] == [False, True, True, False]
    biased = EncoderConfig.from_dict(_modernbert(norm_bias=True, global_attn_every_n_layers=1))
    assert EncoderConfig.from_dict(biased.to_dict()) == biased and biased.norm_bias


def test_the_number_of_layers_that_a_file_leaves_out_is_that_of_its_family(monkeypatch):
    row = family_registry.FAMILIES["modernbert"]
    other = dataclasses.replace(row, defaults={**row.defaults, "num_hidden_layers": 2})
    monkeypatch.setattr(family_registry, "FAMILIES", {"other": other})
    values = _modernbert(model_type="other", layer_types=["full_attention", "sliding_attention"])
    config = EncoderConfig.from_dict(values)
    assert (config.num_hidden_layers, config.global_attn_every_n_layers) == (2, 2)
    with pytest.raises(ValueError, match="num_hidden_layers is 2; got a list of 3; "):
        EncoderConfig.from_dict({**values, "layer_types": ["full_attention"] * 3})


def test_what_transformers_adds_to_files_without_local_attention_is_ignored():
    rope = {"full_attention": {"rope_theta": 500.0, "rope_type": "default"}, "rope_type": "default", "rope_theta": None}
    config = EncoderConfig.from_dict(_modernbert(num_hidden_layers=2, layer_types=["full_attention"] * 2,
                                                 rope_parameters=rope))  # fmt: skip
    assert config.global_rope_theta == 500.0 and not any(map(config.is_local, range(2)))


@pytest.mark.slow
def test_a_row_of_8192_tokens_is_trained_on_and_answered_as_its_parts_are():
    """Texts packed into one row, trained on with recomputed activations and not, and answered by the CPU graph."""
    length, many = 1024, 8
    encoder = _encoder(**MODERN | {"max_position_embeddings": length * many})
    parts = {"input_ids": np.concatenate([_row(length, seed=n)["input_ids"][:1] for n in range(many)])}
    parts["input_mask"] = np.ones_like(parts["input_ids"])
    packed = {"sentence_ids": np.repeat(np.arange(1, many + 1, dtype=np.int32), length).reshape(many, length)}
    row = {name: values.reshape(1, -1) for name, values in (parts | packed).items()}
    found = []
    for inputs, gradient_checkpointing in ((parts, False), (row, False), (row, True)):
        encoder.gradient_checkpointing = gradient_checkpointing
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True)["sequence_output"]
            loss = tf.reduce_sum(outputs**3)
        gradients = tape.gradient(loss, [v.value for v in encoder.variables])
        found.append([tf.reshape(outputs, [-1]), *map(tf.convert_to_tensor, gradients)])
    for others in zip(*found, strict=True):
        one, *others = (each.numpy() for each in others)
        for other in others:
            np.testing.assert_allclose(other, one, atol=2e-5 * np.abs(one).max())
    whole = {name: parts[name].reshape(1, -1) for name in parts}
    expected = encoder(whole)["sequence_output"]
    answered = FastEncoder(encoder, Floats())(whole)["sequence_output"]
    np.testing.assert_allclose(answered, expected, atol=1e-5)
