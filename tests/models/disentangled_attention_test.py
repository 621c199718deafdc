"""Disentangled attention: scores of relative positions, their buckets, and settings that go together."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.disentangled_attention import position_scores, relative_rows, values_by_distance
from bert_tf.models.encoder import Encoder
from tests import tiny
from tests.harness import randomize

pytestmark = pytest.mark.usefixtures("unfused")
BOTH = {"pos_att_type": ("c2p", "p2c"), "position_buckets": 6, "position_biased_input": False, "num_hidden_layers": 2}


def _encoder(**changes):
    encoder = Encoder(tiny.config(**{"max_position_embeddings": 20, **BOTH, **changes}))
    encoder.build()
    randomize(encoder)
    return encoder


@pytest.mark.parametrize("length", [1, 2, 7])
def test_each_score_is_that_of_its_distance(length):
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 2, 3, length, 4)).astype(np.float32)
    far_keys, far_queries = rng.normal(size=(2, 1, 3, 2 * length, 4)).astype(np.float32)  # of length - 1, ..., -length
    of_keys, of_queries = np.zeros((2, 2, 3, length, length), np.float32)
    for i in range(length):
        for j in range(length):
            row = length - 1 - (i - j)
            of_keys[:, :, i, j] = np.sum(query[:, :, i] * far_keys[:, :, row], -1)
            of_queries[:, :, i, j] = np.sum(key[:, :, j] * far_queries[:, :, row], -1)
    np.testing.assert_allclose(position_scores(query, key, far_keys), of_keys, atol=1e-5)
    np.testing.assert_allclose(position_scores(query, key, None, far_queries), of_queries, atol=1e-5)
    np.testing.assert_allclose(position_scores(query, key, far_keys, far_queries), of_keys + of_queries, atol=1e-5)


@pytest.mark.parametrize("first", [6, 7])
def test_the_gradient_by_distance_is_that_of_an_index(first):
    """Also that it is taken without StridedSliceGrad, which is ten times as slow on a CPU."""
    x, weights = (np.random.default_rng(0).normal(size=(2, 3, 7, n)).astype(np.float32) for n in (14, 7))
    columns = first + np.arange(7) - np.arange(7)[:, None]

    def gradient(values, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(values(x) ** 3 * weights)
        return tape.gradient(loss, x)

    ours = tf.function(
        lambda x: gradient(lambda x: values_by_distance(x, first), x), [tf.TensorSpec([None, 3, None, None])]
    )
    indices = np.broadcast_to(columns, (2, 3, 7, 7))
    expected = gradient(lambda x: tf.gather(x, indices, batch_dims=3), tf.constant(x))
    np.testing.assert_allclose(ours(x), expected, atol=1e-5)
    operations = ours.get_concrete_function().graph.get_operations()
    assert "StridedSliceGrad" not in {operation.type for operation in operations}


def test_several_examples_of_one_head():
    """TensorFlow 2.21's product of [3, 1, 88, 12] and one [176, 12], transposed, ends the process in a graph."""
    rng = np.random.default_rng(0)
    query, far_keys = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 1, 88, 12), (1, 1, 176, 12)))
    shapes = tf.TensorSpec([None, 1, None, 12]), tf.TensorSpec([1, 1, None, 12])
    scores = tf.function(lambda query, far: position_scores(query, query, far), shapes)(query, far_keys)
    for found, each in zip(scores, query, strict=True):
        np.testing.assert_allclose(found, position_scores(each[None], each[None], far_keys)[0], atol=1e-5)


def test_buckets():
    """The numbers are those of torch Transformers' make_log_bucket_position."""
    config = tiny.config(pos_att_type=["p2c"], position_buckets=6, max_position_embeddings=20)
    assert config.pos_att_type == ("p2c",) and config.relative_span == 6
    expected = [5, 5, 5, 5, 4, 4, 4, 4, 3, 2, 1, 0, -1, -2, -3, -4, -4, -4, -4, -5, -5, -5, -5, -5]
    assert (relative_rows(config, 12).numpy() - 6).tolist() == expected
    config = tiny.config(pos_att_type=["c2p"], position_buckets=256, max_position_embeddings=512)
    rows = relative_rows(config, 600).numpy()  # a packed sequence
    far = {1: 1, 127: 127, 129: 129, 200: 169, 300: 207, 511: 255, 599: 255}
    assert {distance: rows[599 - distance] - 256 for distance in far} == far
    assert {distance: 256 - rows[599 + distance] for distance in far} == far and rows[599] == 256
    config = tiny.config(pos_att_type=["c2p"], max_relative_positions=3, max_position_embeddings=20)
    assert relative_rows(config, 5).numpy().tolist() == [5, 5, 5, 4, 3, 2, 1, 0, 0, 0]


def test_recomputed_gradients_reach_the_positions():
    encoder = _encoder(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ids, found = np.random.default_rng(0).integers(4, len(tiny.VOCAB), (2, 9)).astype(np.int32), []
    for options in ({}, {"gradient_checkpointing": True}):
        encoder.gradient_checkpointing = options.pop("gradient_checkpointing", False)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder({"input_ids": ids}, training=True, **options)["sequence_output"] ** 3)
        gradients = tape.gradient(loss, [v.value for v in encoder.variables[:-2]])  # all but the pooler's
        found.append([tf.convert_to_tensor(each).numpy() for each in gradients])
    paths = [variable.path for variable in encoder.variables]
    assert np.abs(found[0][paths.index("bert/embeddings/relative_positions/relative_embeddings")]).max() > 0.1
    for one, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max() + 1e-6)


def test_packed_rows_are_as_their_parts_alone():
    encoder = _encoder(max_position_embeddings=13, has_pooler=False)
    again = Encoder.from_config(encoder.get_config())
    again.build()
    again.set_weights(encoder.get_weights())
    ids = np.random.default_rng(0).integers(4, len(tiny.VOCAB), (1, 26)).astype(np.int32)
    sentences = np.repeat([[1, 2, 3, 0]], [9, 4, 12, 1], axis=1).astype(np.int32)
    mask = (sentences > 0).astype(np.int32)
    together = again({"input_ids": ids, "input_mask": mask, "sentence_ids": sentences})["sequence_output"][0]
    for part in (slice(0, 9), slice(9, 13), slice(13, 25)):
        alone = encoder({"input_ids": ids[:, part]})["sequence_output"][0]
        np.testing.assert_allclose(together[part], alone, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pos_att_type": "c2p"}, r"""must be one of \[\], \["c2p"\], \["p2c"\], \["c2p", "p2c"\]; got 'c2p'"""),
        ({"pos_att_type": ["c2p", "c2p"]}, r"pos_att_type must be one of .*. got \('c2p', 'c2p'\)"),
        ({"pos_att_type": ["p2p"]}, r"pos_att_type must be one of .*. got \('p2p',\)"),
        ({"position_buckets": 6}, "position_buckets requires pos_att_type; got none"),
        ({"max_relative_positions": 6}, "max_relative_positions requires pos_att_type; got none"),
        ({"pos_att_type": ["c2p"], "position_buckets": 1}, "position_buckets requires at least 2, and less than"),
        ({"pos_att_type": ["c2p"], "position_buckets": 8, "max_relative_positions": 5}, "distance, 4; got 8"),
        ({"pos_att_type": ["c2p"], "position_buckets": -1}, "position_buckets must be a positive integer; got -1"),
        ({"pos_att_type": ["c2p"], "local_attention": 4}, "pos_att_type requires no local_attention; got 4"),
        ({"pos_att_type": ["c2p"], "global_rope_theta": 9.0}, "pos_att_type requires no global_rope_theta"),
        ({"position_biased_input": False, "global_rope_theta": 9.0}, "position_biased_input=False requires no global"),
        ({"position_biased_input": False, "first_position": 2}, "=False requires positions from 0"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny.config(**changes)


def _deberta(**changes):
    """Returns config.json of deberta-v3-small; None removes a key."""
    values = {
        "model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_size": 768,
        "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-07,
        "max_position_embeddings": 512, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm",
        "num_attention_heads": 12, "num_hidden_layers": 6, "pad_token_id": 0, "pooler_dropout": 0,
        "pooler_hidden_act": "gelu", "pooler_hidden_size": 768, "pos_att_type": "p2c|c2p", "position_buckets": 256,
        "position_biased_input": False, "relative_attention": True, "share_att_key": True, "type_vocab_size": 0,
        "vocab_size": 128100,
    }  # fmt: skip
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


def test_the_file_of_a_release(tmp_path):
    config = EncoderConfig.from_dict(_deberta())
    assert (config.pos_att_type, config.position_buckets, config.max_relative_positions) == (("p2c", "c2p"), 256, None)
    assert (config.most_relative_positions, config.has_position_table, config.has_pooler) == (512, False, False)
    assert (config.classifier_act, config.layer_norm_eps, config.type_vocab_size) == ("gelu", 1e-7, 0)
    config.save(tmp_path / "config.json")
    assert EncoderConfig.load(tmp_path) == config


@pytest.mark.parametrize("act", ["gelu_new", "gelu_pytorch_tanh", "GELU_FAST"])
def test_the_poolers_activation_has_the_names_that_other_activations_have(act):
    config = EncoderConfig.from_dict(_deberta(pooler_hidden_act=act))
    assert (config.classifier_act, config.hidden_act) == ("gelu_tanh", "gelu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share_att_key": None}, "share_att_key must be true for this model_type; got none, which bert_tf does"),
        ({"share_att_key": False}, "share_att_key must be true for this model_type; got False"),
        ({"norm_rel_ebd": "none"}, 'norm_rel_ebd must be "layer_norm" for this model_type; got \'none\''),
        ({"relative_attention": False}, "relative_attention must be true for this model_type; got False"),
        ({"conv_kernel_size": 4}, "conv_kernel_size must be odd; got 4"),
        ({"conv_kernel_size": 3, "conv_act": "mish"}, r"conv_act must be one of gelu, .*; got 'mish'"),
        ({"conv_kernel_size": 3, "conv_groups": 2}, "conv_groups must be 1 for this model_type; got 2"),
        ({"embedding_size": 128}, "embedding_size must be 768 for this model_type; got 128"),
        ({"pooler_hidden_size": 128}, "pooler_hidden_size must be 768 for this model_type; got 128"),
        ({"attention_head_size": 32}, "attention_head_size must be 64 for this model_type; got 32"),
        ({"pos_att_type": None}, "pos_att_type must have c2p, p2c or both for this model_type; got None"),
        ({"pos_att_type": "p2c|p2p"}, "pos_att_type must be one of"),
        ({"pooler_hidden_act": "mish"}, r"pooler_hidden_act must be one of gelu, .*; got 'mish'"),
        ({"pooler_hidden_act": 5}, "pooler_hidden_act must be the name of an activation; got 5"),
        ({"model_type": "deberta"}, r"model_type must be one of .*'deberta-v2'.*. got 'deberta'"),
    ],
)  # fmt: skip
def test_files_of_deberta_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        EncoderConfig.from_dict(_deberta(**changes))
