"""The settings by which families differ, in the whole encoder: what is looked up, pooled and attended to."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.encoder import Encoder
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.models.training_ops import seed_scope
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests import tiny
from tests.harness import randomize, relative_error

pytestmark = pytest.mark.usefixtures("unfused")
IDS = np.array([[2, 5, 9, 11, 3, 0], [2, 7, 3, 8, 4, 3]], np.int32)
MASK = (IDS > 0).astype(np.int32)


def _encoder(**changes):
    encoder = Encoder(tiny.config(**changes))
    encoder.build()
    randomize(encoder)
    return encoder


def _paths(model):
    return {v.path for v in model.variables}


def test_without_a_pooler_the_first_token_is_the_pooled_output():
    encoder = _encoder(has_pooler=False)
    assert _paths(_encoder()) - _paths(encoder) == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    outputs = encoder({"input_ids": IDS, "input_mask": MASK})
    np.testing.assert_array_equal(outputs["pooled_output"], outputs["sequence_output"][:, 0])
    again = Encoder.from_config(encoder.get_config())
    assert again.config == encoder.config and again.pooler is None


@pytest.mark.parametrize("changes", [{}, {"has_pooler": False}, {"is_decoder": True}, {"norm_first": True}])
def test_the_mean_of_the_tokens_can_stand_for_the_text(changes):
    encoder = _encoder(classifier_pooling="mean", **changes)
    outputs = encoder({"input_ids": IDS, "input_mask": MASK})
    tokens, mask = outputs["sequence_output"].numpy(), MASK[..., None]
    expected = (tokens * mask).sum(1) / mask.sum(1)
    if encoder.pooler:
        expected = np.tanh(expected @ encoder.pooler.kernel.numpy() + encoder.pooler.bias.numpy())
    np.testing.assert_allclose(outputs["pooled_output"], expected, atol=1e-6)
    alone = encoder({"input_ids": IDS[:1, :5]})["pooled_output"]  # padding counts for nothing
    np.testing.assert_allclose(outputs["pooled_output"][:1], alone, atol=1e-5)
    assert _paths(encoder) == _paths(_encoder(**changes)), "a checkpoint may be read either way"


def test_the_mean_of_a_long_text_stays_in_the_range_of_float16():
    values = tf.fill([1, 4096, 3], tf.constant(300.0, tf.float16))
    vector = _encoder(classifier_pooling="mean").text_vector(values, tf.ones([1, 4096], tf.int32))
    assert vector.dtype == tf.float16 and (vector.numpy() == 300).all()


def test_a_sentence_objective_is_not_learned_at_the_mean():
    with pytest.raises(ValueError, match="got 'nsp' with classifier_pooling='mean'"):
        PretrainingTask(tiny.config(classifier_pooling="mean"))
    PretrainingTask(tiny.config(classifier_pooling="mean"), "none")


def test_tasks_and_pretraining_do_without_a_pooler():
    config = tiny.config(has_pooler=False, type_vocab_size=0)
    models = [ClassificationTask(config, 2).build_model(), QuestionAnsweringTask(config).build_model()]
    models += [Pretrainer(config, next_sentence) for next_sentence in (True, False)]
    for model in models:
        assert not any("pooler" in path or "token_type" in path for path in _paths(model))
    inputs = {"input_ids": IDS, "masked_lm_positions": np.array([[1, 2], [3, 4]], np.int32)}
    assert models[2](inputs)["nsp_logits"].shape == (2, 1, 2)
    packed = {"sentence_ids": MASK, "next_sentence_positions": np.array([[0], [0]], np.int32)}
    assert models[2](inputs | packed)["nsp_logits"].shape == (2, 1, 2)


def test_without_segments():
    encoder = _encoder(type_vocab_size=0)
    assert _paths(_encoder()) - _paths(encoder) == {"bert/embeddings/token_type_embeddings"}
    one, other = (encoder({"input_ids": IDS, "segment_ids": kinds}) for kinds in (MASK, 0 * MASK))
    np.testing.assert_array_equal(one["sequence_output"], other["sequence_output"])


def test_positions_that_begin_later():
    plain, later = _encoder(), _encoder(first_position=3, max_position_embeddings=35)
    for mine, theirs in zip(later.variables, plain.variables, strict=True):
        value = np.array(theirs.value)
        mine.assign(np.pad(value, [(3, 0), (0, 0)]) if mine.path.endswith("position_embeddings") else value)
    sentences = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 2, 2]], np.int32)
    for more in ({}, {"sentence_ids": sentences}):
        inputs = {"input_ids": IDS, "input_mask": MASK, **more}
        np.testing.assert_array_equal(later(inputs)["sequence_output"], plain(inputs)["sequence_output"])


@pytest.mark.slow
def test_a_decoder_sees_nothing_to_the_right():
    left = _encoder(is_decoder=True)
    other = np.where(np.arange(6) < 3, IDS, 6)
    for call in (left, tf.function(left)):
        seen, changed = (call({"input_ids": ids})["sequence_output"].numpy() for ids in (IDS, other))
        np.testing.assert_allclose(seen[:, :3], changed[:, :3], atol=1e-5)
        assert np.abs(seen[:, 3:] - changed[:, 3:]).max() > 0.01


def test_the_last_token_of_a_decoder_stands_for_its_row():
    left = _encoder(is_decoder=True, has_pooler=False)
    outputs = left({"input_ids": IDS, "input_mask": MASK})
    last = outputs["sequence_output"].numpy()[[0, 1], [4, 5]]  # the first row ends in padding
    np.testing.assert_array_equal(outputs["pooled_output"], last)
    with_pooler = _encoder(is_decoder=True)
    outputs = with_pooler({"input_ids": IDS, "input_mask": MASK})
    last = tf.gather(outputs["sequence_output"], [4, 5], batch_dims=1)
    np.testing.assert_allclose(outputs["pooled_output"], with_pooler.pooler(last), atol=1e-6)


def test_norms_first_have_names_of_their_own():
    first, after = _paths(_encoder(norm_first=True)), _paths(_encoder())
    assert {path for path in first - after if path.endswith("gamma")} == {
        "bert/encoder/layer_0/attention/LayerNorm/gamma",
        "bert/encoder/layer_0/intermediate/LayerNorm/gamma",
        "bert/encoder/LayerNorm/gamma",
    }
    assert len(first) == len(after) + 2


def test_norms_first_in_packed_rows():
    encoder = _encoder(norm_first=True, num_hidden_layers=2)
    packed = {"input_ids": np.array([[2, 5, 3, 2, 9, 11, 3, 0]], np.int32)}
    packed["sentence_ids"] = np.array([[1, 1, 1, 2, 2, 2, 2, 0]], np.int32)
    packed["input_mask"] = (packed["sentence_ids"] > 0).astype(np.int32)
    together = encoder(packed)["sequence_output"][0]
    for part in (slice(0, 3), slice(3, 7)):
        alone = encoder({"input_ids": packed["input_ids"][:, part]})
        np.testing.assert_allclose(together[part], alone["sequence_output"][0], atol=1e-5)
    np.testing.assert_array_equal(alone["encoder_outputs"][-1], alone["sequence_output"])
    raw = alone["encoder_outputs"][0]
    assert np.abs(np.mean(raw, -1)).max() > 0.05  # nothing has normalized it
    last = encoder.norm(encoder.blocks[1](raw, tf.zeros([1, 1, 1, 4])))
    np.testing.assert_allclose(last, alone["sequence_output"], atol=1e-5)


@pytest.mark.slow
def test_norms_first_with_dropout_computed_again_and_in_bfloat16():
    config, inputs = tiny.config(0.1, norm_first=True), {"input_ids": IDS, "input_mask": MASK}
    plain, again = (Encoder(config, gradient_checkpointing) for gradient_checkpointing in (False, True))
    half = Encoder(config, dtype="mixed_bfloat16")
    for encoder in (plain, again, half):
        encoder.build()
    randomize(plain)
    for encoder in (again, half):
        encoder.set_weights(plain.get_weights())
    found = []
    for encoder in (plain, again):
        with tf.GradientTape() as tape, seed_scope(tf.constant([1, 2])):
            loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"] ** 3)
        found.append(tape.gradient(loss, encoder.blocks[0].norm.gamma.value).numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    assert half(inputs)["sequence_output"].dtype == tf.bfloat16
    assert relative_error(tf.cast(half(inputs)["sequence_output"], tf.float32), plain(inputs)["sequence_output"]) < 0.03


def test_segments_beyond_the_table_are_refused():
    with pytest.raises(ValueError, match="segment_ids must be from 0 to 1, because type_vocab_size is 2."):
        _encoder()({"input_ids": IDS, "segment_ids": 2 * MASK})
