"""The pretraining model: the harness, packed rows, left to right, checkpoints of both dialects, precision."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import encoder_inputs
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.models.pretraining_heads import NextSentenceHead
from bert_tf.models.training_ops import seed_scope
from bert_tf.pretraining.packing import pack_examples
from tests import tiny
from tests.checkpoints import fakes
from tests.fake_batches import fake_batch
from tests.harness import check_layer, randomize, relative_error
from tests.models import encoder_test

pytestmark = pytest.mark.usefixtures("unfused")
CONFIG = encoder_test.CONFIG
INPUTS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
HEADS = {
    "cls/predictions/transform/dense/kernel": (8, 8),
    "cls/predictions/transform/dense/bias": (8,),
    "cls/predictions/transform/LayerNorm/gamma": (8,),
    "cls/predictions/transform/LayerNorm/beta": (8,),
    "cls/predictions/output_bias": (30,),
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}


def _batch(names=INPUTS, seed=0):
    return fake_batch(names, seq_length=9, vocab_size=30, seed=seed)


def _pretrainer(seed=0, is_decoder=False, **arguments):
    keras.utils.set_random_seed(seed)
    model = Pretrainer(dataclasses.replace(CONFIG, is_decoder=is_decoder), **arguments)
    randomize(model, seed)
    return model


def test_the_next_sentence_head_in_float16():
    head, half = (NextSentenceHead(dtype=dtype) for dtype in ("float32", "float16"))
    vectors = np.random.default_rng(0).standard_normal((4, 3, 8), np.float32)
    head.build(vectors.shape)
    half.build(vectors.shape)
    randomize(head)
    half.set_weights(head.get_weights())
    np.testing.assert_allclose(half(vectors.astype(np.float16)), head(vectors), atol=0.01)


@pytest.mark.slow
def test_harness(tmp_path):
    arguments = {"config": CONFIG.to_dict(), "next_sentence": True, "gradient_checkpointing": False}
    weights = encoder_test.weights() | HEADS
    check_layer(
        Pretrainer,
        arguments,
        (_batch(),),
        weights,
        tmp_path,
        unmoved=["key/bias"],
        half_dtype="float32",
        half_tolerance=0.05,
    )


def test_outputs_are_the_heads_of_the_encoder():
    model, batch = _pretrainer(), _batch()
    outputs, encoded = model(batch), model.encoder(encoder_inputs(batch))
    assert {name: (y.shape, y.dtype.name) for name, y in outputs.items()} == {
        "mlm_logits": ((4, 3, 30), "float32"),
        "nsp_logits": ((4, 1, 2), "float32"),
    }
    table = model.encoder.embeddings.word_embeddings
    expected = model.masked_lm(encoded["sequence_output"], table.value, batch["masked_lm_positions"])
    np.testing.assert_allclose(outputs["mlm_logits"], expected, rtol=1e-5, atol=1e-5)
    related = model.seq_relationship(encoded["pooled_output"])
    np.testing.assert_allclose(outputs["nsp_logits"][:, 0], related, rtol=1e-5, atol=1e-5)


def test_the_decoder_is_the_embedding_table():
    """What a word of the vocabulary that stands nowhere in the batch scores, its own row alone decides."""
    model = _pretrainer()
    batch = _batch() | {"input_ids": np.full((4, 9), 5, np.int32)}
    before = model(batch)["mlm_logits"].numpy()
    table = model.encoder.embeddings.word_embeddings
    table.assign(table.value.numpy() * np.where(np.arange(30) == 7, 2.0, 1.0)[:, None])
    changed = np.abs(model(batch)["mlm_logits"].numpy() - before).max((0, 1)) > 1e-3
    assert changed.nonzero()[0].tolist() == [7]


@pytest.mark.slow
def test_without_next_sentence_the_pooler_is_frozen():
    model = _pretrainer(next_sentence=False)
    assert set(model(_batch())) == {"mlm_logits"}
    frozen = {v.path for v in model.variables} - {v.path for v in model.trainable_variables}
    assert frozen == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    again = Pretrainer.from_config(model.get_config())
    assert [v.path for v in again.trainable_variables] == [v.path for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(_batch(), training=True)["mlm_logits"] ** 2)
    assert None not in tape.gradient(loss, [v.value for v in model.trainable_variables])


@pytest.mark.parametrize("next_sentence", [True, False])
def test_the_names_are_the_same_inside_another_model(next_sentence):
    batch = _batch()
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in batch}
    model = Pretrainer(CONFIG, next_sentence)
    whole = keras.Model(inputs, model(inputs))
    heads = [path for path in HEADS if next_sentence or "seq_relationship" not in path]
    assert {v.path for v in whole.variables} == {*encoder_test.weights(), *heads}
    for name, logits in whole(batch).items():
        np.testing.assert_allclose(logits, model(batch)[name], rtol=1e-6)


def _examples():
    """Returns three examples, unpacked, as the records hold them."""
    places, number = np.array([[1, 3, 0], [1, 0, 0], [2, 4, 5]]), np.array([2, 1, 3])
    weights = np.arange(3) < number[:, None]
    labels = {"masked_lm_weights": weights.astype(np.float32), "next_sentence_labels": np.array([[0], [1], [1]])}
    batch = encoder_test.padded()
    batch["input_ids"] = batch["input_ids"] * batch["input_mask"]
    predictions = {"masked_lm_positions": places * weights, "masked_lm_ids": (places + 9) * weights}
    return {k: np.asarray(v) for k, v in {**batch, **predictions, **labels}.items()}


@pytest.mark.parametrize("causal", [False, True])
def test_packed_rows_have_the_logits_of_their_examples(causal):
    """Seven, five and three tokens in rows of ten."""
    examples = {k: np.pad(v, [(0, 0), (0, 1)]) if v.shape[1] == 9 else v for k, v in _examples().items()}
    rows = pack_examples(examples, max_predictions=6, max_sentences=3)
    assert rows["input_ids"].shape == (2, 10)
    model = _pretrainer(is_decoder=causal)
    alone, packed = (model({name: each[name] for name in model.TAKES if name in each}) for each in (examples, rows))
    shown = [("mlm_logits", "masked_lm_ids", "masked_lm_weights")]
    if not causal:  # left to right there is no sentence objective
        shown.append(("nsp_logits", "next_sentence_labels", "next_sentence_weights"))
    for name, place, weights in shown:
        ones = np.ones_like(examples["next_sentence_labels"])
        before = alone[name].numpy()[examples.get(weights, ones) > 0]
        after = packed[name].numpy()[rows[weights] > 0]
        assert len(before) == len(after) == (6 if name == "mlm_logits" else 3), place
        order = [np.lexsort(np.round(values, 3).T) for values in (before, after)]
        np.testing.assert_allclose(after[order[1]], before[order[0]], rtol=1e-4, atol=1e-4)


def test_causal_attention_sees_nothing_to_the_right():
    model, both = _pretrainer(is_decoder=True), _pretrainer()
    assert Encoder.from_config(model.encoder.get_config()).config.is_decoder and not both.encoder.config.is_decoder
    positions = np.tile(np.arange(9, dtype=np.int32), (2, 1))
    ids = np.random.default_rng(0).integers(5, 30, (2, 9)).astype(np.int32)
    ids[1, :5] = ids[0, :5]
    inputs = {"input_ids": ids, "masked_lm_positions": positions}
    seen, blind = both(inputs)["mlm_logits"].numpy(), model(inputs)["mlm_logits"].numpy()
    np.testing.assert_allclose(blind[1, :5], blind[0, :5], rtol=1e-5, atol=1e-5)
    assert (np.abs(blind[1, 5:] - blind[0, 5:]).max(-1) > 1e-2).all()
    assert (np.abs(seen[1, :5] - seen[0, :5]).max(-1) > 1e-3).all()


def test_checkpoints_of_both_dialects_load(tmp_path):
    model = _pretrainer()
    tf1.write_tf1(str(tmp_path / "bert_model.ckpt"), model.variables)
    weights = {v.path: v.value.numpy() for v in model.variables}
    folder = fakes.save_hugging_face(tmp_path / "hf", fakes.to_hugging_face(weights))
    for path in (tmp_path / "bert_model.ckpt", folder):
        other = _pretrainer(seed=1)
        report = assign_weights(path, other.variables)
        assert len(report.loaded) == len(weights) == 5 + 16 * 2 + 2 + 5 + 2
        assert not report.allowed_missing and not report.allowed_unused
        for name, logits in model(_batch()).items():
            np.testing.assert_array_equal(other(_batch())[name], logits)


def test_the_base_model_has_googles_names():
    assert fakes.BASE.keys() - encoder_test.weights().keys() >= HEADS.keys()
    small = {p for p in fakes.BASE if not any(f"/layer_{n}/" in p for n in range(2, 12))}
    assert {v.path for v in Pretrainer(CONFIG).variables} == small


@pytest.mark.slow
def test_rematerialization_changes_nothing():
    gradients = []
    for gradient_checkpointing in (False, True):
        model = _pretrainer(gradient_checkpointing=gradient_checkpointing)
        with seed_scope(tf.constant([1, 2])), tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(y**2) for y in model(_batch(), training=True).values())
        found = tape.gradient(loss, [v.value for v in model.trainable_variables])
        gradients.append([tf.convert_to_tensor(g).numpy() for g in found])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(precision):
    config = tiny.config()
    true, half = Pretrainer(config), Pretrainer(config, dtype=precision)
    randomize(true)
    half.set_weights(true.get_weights())
    batch = fake_batch(INPUTS, vocab_size=config.vocab_size)
    assert {v.dtype for v in half.variables} == {"float32"}
    assert half.encoder(encoder_inputs(batch))["sequence_output"].dtype == precision.removeprefix("mixed_")
    for name, logits in half(batch).items():
        assert logits.dtype == tf.float32
        assert relative_error(logits, true(batch)[name]) < 0.05
