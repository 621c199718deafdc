"""Biases of relative positions: their buckets, their gradients, pruned heads, and settings that go together."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.position_buckets import two_sided_buckets
from bert_tf.models.relative_bias import bias_by_layer
from tests import tiny
from tests.harness import randomize

pytestmark = pytest.mark.usefixtures("unfused")
BIASED = {"relative_attention_num_buckets": 8, "num_hidden_layers": 2}
BIAS = "bert/embeddings/relative_positions/attention_bias"


def _encoder(**changes):
    encoder = Encoder(tiny.config(**{"max_position_embeddings": 20, "has_pooler": False, **BIASED, **changes}))
    encoder.build()
    randomize(encoder)
    return encoder


def _ids(*shape):
    return np.random.default_rng(0).integers(4, len(tiny.VOCAB), shape).astype(np.int32)


def test_buckets():
    """The numbers are those of torch Transformers' MPNetEncoder.relative_position_bucket for 700 tokens."""
    begins = [*range(9), 12, 16, 23, 32, 46, 64, 91]  # the first distance of each bucket
    expected = np.searchsorted(begins, np.arange(700), "right") - 1
    buckets = two_sided_buckets(700, 32)
    assert buckets.dtype == np.int32 and len(buckets) == 1399
    np.testing.assert_array_equal(buckets[699:], expected)
    np.testing.assert_array_equal(buckets[:699], 16 + expected[:0:-1])
    assert two_sided_buckets(1, 32).tolist() == [0]


@pytest.mark.parametrize("length", [1, 2, 7, 25])
def test_each_bias_is_that_of_its_distance(length):
    config = tiny.config(max_position_embeddings=20, num_attention_heads=4, **BIASED)
    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    bias, again = bias_by_layer(config, table, tf.constant(length))
    buckets = two_sided_buckets(20, 8)  # farther tokens of a packed sequence share the last one's
    expected = [[table[buckets[np.clip(i - j, -19, 19) + 19]] for j in range(length)] for i in range(length)]
    assert again is bias
    np.testing.assert_array_equal(bias[0], np.moveaxis(expected, 2, 0))


def test_pruned_heads_take_their_biases_with_them():
    encoder = _encoder(num_attention_heads=4)
    pruned = _encoder(num_attention_heads=4, pruned_heads={1: (0, 2)})
    width = encoder.config.hidden_size // 4
    kept = np.r_[width : 2 * width, 3 * width : 4 * width]
    for ours, theirs in zip(pruned.variables, encoder.variables, strict=True):
        value = theirs.numpy()
        if "layer_1/attention/self" in ours.path:
            value = value[..., kept]
        elif "layer_1/attention/output/dense/kernel" in ours.path:
            value = value[kept]
        ours.assign(value)
    mask = [np.ones(4), np.array([0.0, 1.0, 0.0, 1.0])]
    inputs = {"input_ids": _ids(2, 7)}
    expected = encoder(inputs, head_mask=mask)["sequence_output"]
    np.testing.assert_allclose(pruned(inputs)["sequence_output"], expected, atol=1e-5)


def test_recomputed_gradients_reach_the_biases():
    encoder, found = _encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), []
    for encoder.gradient_checkpointing in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder({"input_ids": _ids(2, 9)}, training=True)["sequence_output"] ** 3)
        gradients = tape.gradient(loss, [v.value for v in encoder.variables])
        found.append([tf.convert_to_tensor(each).numpy() for each in gradients])
    place = [variable.path for variable in encoder.variables].index(BIAS)
    assert np.abs(found[0][place]).max() > 0.1
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max() + 1e-6)


def test_packed_rows_are_as_their_parts_alone():
    encoder = _encoder(max_position_embeddings=13)
    again = Encoder.from_config(encoder.get_config())
    again.build()
    again.set_weights(encoder.get_weights())
    ids, sentences = _ids(1, 26), np.repeat([[1, 2, 3, 0]], [9, 4, 12, 1], axis=1).astype(np.int32)
    features = {"input_ids": ids, "input_mask": (sentences > 0).astype(np.int32), "sentence_ids": sentences}
    together = again(features)["sequence_output"][0]
    for part in (slice(0, 9), slice(9, 13), slice(13, 25)):
        alone = encoder({"input_ids": ids[:, part]})["sequence_output"][0]
        np.testing.assert_allclose(together[part], alone, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relative_attention_num_buckets": 2}, "requires an even number from 4 to 510; got 2"),
        ({"relative_attention_num_buckets": 33}, "requires an even number from 4 to 510; got 33"),
        ({"relative_attention_num_buckets": 512}, "requires an even number from 4 to 510; got 512"),
        ({"relative_attention_num_buckets": 0}, "must be a positive integer; got 0"),
        ({"local_attention": 4}, "relative_attention_num_buckets requires no local_attention; got 4"),
        ({"pos_att_type": ["c2p"]}, "relative_attention_num_buckets requires no pos_att_type; got "),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny.config(**{**BIASED, **changes})


# config.json of sentence-transformers/all-mpnet-base-v2.
ALL_MPNET = {
    "_name_or_path": "microsoft/mpnet-base", "architectures": ["MPNetForMaskedLM"], "model_type": "mpnet",
    "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12,
    "relative_attention_num_buckets": 32, "transformers_version": "4.8.2", "vocab_size": 30527,
}  # fmt: skip


def test_mpnet_s_file():
    config = EncoderConfig.from_dict(ALL_MPNET)
    assert (config.relative_attention_num_buckets, config.first_position, config.max_length) == (32, 2, 512)
    assert (config.type_vocab_size, config.has_pooler, config.classifier_act) == (0, False, "tanh")
    assert EncoderConfig.from_dict(config.to_dict()) == config
    for changes, message in (
        ({"relative_attention_num_buckets": 48}, "relative_attention_num_buckets must be 32 or absent .* got 48"),
        ({"pad_token_id": 0}, "pad_token_id must be 1 or absent for this model_type; got 0"),
        ({"is_decoder": True}, "is_decoder must be false or absent for this model_type"),
    ):
        with pytest.raises(ValueError, match=message):
            EncoderConfig.from_dict(ALL_MPNET | changes)
