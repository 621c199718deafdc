"""SPLADE's model: pooled logits, a part of the positions at a time, and independent of padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import splade
from bert_tf.models.splade import SpladeModel
from tests import tiny

LENGTHS = (19, 7, 1)


@pytest.fixture(scope="module")
def inputs():
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, np.newaxis]).astype(np.int32)
    ids = np.random.default_rng(0).integers(5, len(tiny.VOCAB), mask.shape, np.int32) * mask
    return {"input_ids": tf.constant(ids), "input_mask": tf.constant(mask)}


def logits_of(model, ids):
    """Returns the logits of one text's tokens, float32 [S, V]."""
    outputs = model.encoder({"input_ids": ids[np.newaxis]})
    table, places = model.encoder.embeddings.word_embeddings, np.arange(len(ids))[np.newaxis]
    return model.masked_lm(outputs["sequence_output"], table, places)[0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("pooling, activation", [("max", "relu"), ("sum", "log1p_relu")])
def test_vectors_are_pooled_in_parts(pooling, activation, inputs, monkeypatch):
    keras.utils.set_random_seed(0)
    model = SpladeModel(tiny.config(), pooling, activation)
    expected = []
    for ids, length in zip(inputs["input_ids"].numpy(), LENGTHS, strict=True):
        weights = np.log1p(np.maximum(logits_of(model, ids[:length]), 0))
        weights = np.log1p(weights) if activation == "log1p_relu" else weights
        expected.append(weights.max(0) if pooling == "max" else weights.sum(0))
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    monkeypatch.setattr(splade, "_TOKENS", 24)
    monkeypatch.setattr(splade, "_FEWEST", 1)
    whole = tf.function(model, [specs], autograph=False)  # 8 of 19 positions at a time
    found = whole(inputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert 0.1 < np.mean(found == 0) < 0.9


def test_it_is_saved_with_its_settings():
    model = SpladeModel(tiny.config(), "sum", "log1p_relu")
    again = SpladeModel.from_config(model.get_config())
    assert (again.pooling, again.activation, again.config) == ("sum", "log1p_relu", model.config)


@pytest.mark.slow
def test_xla_compiles_it(inputs, monkeypatch):
    keras.utils.set_random_seed(0)
    model = SpladeModel(tiny.config())
    monkeypatch.setattr(splade, "_TOKENS", 24)
    specs = [{name: tf.TensorSpec([None, None], tf.int32) for name in inputs}]
    found = [tf.function(model, specs, autograph=False, jit_compile=jit)(inputs) for jit in (False, True)]
    np.testing.assert_allclose(*found, atol=1e-5)
