"""Generator and discriminator in one model: the harness, what they share, what they drop, packed rows."""

import dataclasses
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.model_inputs import encoder_inputs
from bert_tf.models.replaced_tokens import ReplacedTokenPretrainer
from bert_tf.models.training_ops import seed_scope
from tests.fake_batches import fake_batch
from tests.harness import check_layer, randomize
from tests.models import encoder_test

pytestmark = pytest.mark.usefixtures("unfused")
CONFIG = dataclasses.replace(encoder_test.CONFIG, has_pooler=False, num_hidden_layers=1)
GENERATOR = dataclasses.replace(CONFIG, hidden_size=4, num_attention_heads=1, intermediate_size=6, embedding_size=8)
INPUTS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_weights", "unmasked_ids",
          "sampling_draws")  # fmt: skip
HEADS = {
    "cls/replaced_tokens/dense/kernel": (8, 8),
    "cls/replaced_tokens/dense/bias": (8,),
    "cls/replaced_tokens/output_weights": (1, 8),
    "cls/replaced_tokens/output_bias": (1,),
    "generator/cls/predictions/transform/dense/kernel": (4, 8),
    "generator/cls/predictions/transform/dense/bias": (8,),
    "generator/cls/predictions/transform/LayerNorm/gamma": (8,),
    "generator/cls/predictions/transform/LayerNorm/beta": (8,),
    "generator/cls/predictions/output_bias": (30,),
    "generator/bert/encoder/embedding_hidden_mapping_in/kernel": (8, 4),
    "generator/bert/encoder/embedding_hidden_mapping_in/bias": (4,),
}


def _weights():
    own = {path: shape for path, shape in encoder_test.weights().items() if not re.search("pooler|layer_1", path)}
    width = {8: 4, 12: 6}
    block = {f"generator/{path}": tuple(width[n] for n in shape) for path, shape in own.items() if "layer_0" in path}
    return own | HEADS | block


def _batch(seed=0):
    return fake_batch(INPUTS, seq_length=9, vocab_size=30, seed=seed)


def _model(config=CONFIG, generator=GENERATOR):
    keras.utils.set_random_seed(0)
    model = ReplacedTokenPretrainer(config, generator)
    randomize(model)
    return model


@pytest.mark.slow
def test_harness(tmp_path):
    # The first piece of the vocabulary or the last, which no rounding changes to another.
    draws = np.float32(np.random.default_rng(0).integers(2, size=_batch()["sampling_draws"].shape) * 0.9999)
    arguments = {"config": CONFIG.to_dict(), "generator": GENERATOR.to_dict(), "gradient_checkpointing": False}
    check_layer(
        ReplacedTokenPretrainer,
        arguments,
        (_batch() | {"sampling_draws": draws},),
        _weights(),
        tmp_path,
        unmoved=["key/bias"],
        half_dtype="float32",
        half_tolerance=0.1,
    )


def test_the_discriminator_sees_what_the_generator_drew():
    model, batch = _model(), _batch()
    outputs = model(batch)
    places = np.zeros((4, 9), bool)
    for row, (positions, weights) in enumerate(zip(batch["masked_lm_positions"], batch["masked_lm_weights"],
                                                   strict=True)):  # fmt: skip
        places[row, positions[weights > 0]] = True
    replaced = outputs["replaced"].numpy()
    assert replaced.sum() > 4 and not replaced[~places].any()
    # Draws of 0 take the first piece of the vocabulary: where it was there already, nothing is replaced.
    zeros = batch | {"sampling_draws": np.zeros((4, 3), np.float32)}
    zeros["unmasked_ids"] = np.where(places & (np.arange(4) < 2)[:, None], 0, batch["unmasked_ids"])
    outputs = model(zeros)
    assert not outputs["replaced"].numpy()[:2].any()
    replaced = encoder_inputs(zeros | {"input_ids": np.where(places, 0, zeros["unmasked_ids"])})
    x = model.encoder(replaced)["sequence_output"]
    np.testing.assert_allclose(outputs["replaced_logits"], model.replaced_tokens(x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_both_networks_read_and_teach_one_table():
    model, batch = _model(), _batch()
    table = model.encoder.embeddings.word_embeddings
    assert model.generator.embeddings is model.encoder.embeddings
    for name in ("mlm_logits", "replaced_logits"):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(batch, training=True)[name] ** 2)
        assert np.abs(tf.convert_to_tensor(tape.gradient(total, table.value)).numpy()).max() > 0


def test_the_generator_learns_nothing_of_the_discriminator():
    model, batch = _model(), _batch()
    own = [v for v in model.trainable_variables if v.path.startswith("generator/")]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(batch, training=True)["replaced_logits"] ** 2)
    assert tape.gradient(total, [v.value for v in own]) == [None] * len(own)


def test_the_two_drop_other_numbers_of_the_embeddings_and_the_same_by_the_same_seed():
    model, batch = _model(), _batch()
    seen, embed = [], model.encoder.embeddings.dropout.call

    def spy(x, training=None):
        y = embed(x, training=training)
        seen.append(np.asarray(y == 0))
        return y

    model.encoder.embeddings.dropout.call = spy
    for _ in range(2):
        with seed_scope(tf.constant([1, 2])):
            model(batch, training=True)
    assert len(seen) == 4 and (seen[0] != seen[1]).any()
    assert (seen[0] == seen[2]).all() and (seen[1] == seen[3]).all()


def test_packed_examples_do_not_see_each_other():
    model, batch = _model(), fake_batch((*INPUTS, "sentence_ids"), seq_length=9, vocab_size=30, max_predictions=6)
    first = batch["sentence_ids"] == 1
    other = batch | {name: np.where(first, batch[name], 5) for name in ("input_ids", "unmasked_ids")}
    of_first = np.take_along_axis(first, batch["masked_lm_positions"], 1) & (batch["masked_lm_weights"] > 0)
    outputs = [model(b) for b in (batch, other)]
    for name, mine in (("mlm_logits", of_first), ("replaced_logits", first)):
        one, two = (out[name].numpy() for out in outputs)
        np.testing.assert_allclose(one[mine], two[mine], rtol=1e-4, atol=1e-4)
        assert mine.sum() > 3 and np.abs(one[~mine] - two[~mine]).max() > 0.01
