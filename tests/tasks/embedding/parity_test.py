"""Losses and their gradients beside those of sentence-transformers, for all dimensions and for shorter vectors."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.embedding import EmbeddingTask
from tests import other_envs, tiny
from tests.parity import GOLDENS

DIMS, TEMPERATURE = [32, 9, 4], 0.1
RNG = np.random.default_rng(0)
VECTORS, LABELS = RNG.normal(size=(6, 3, 32)).astype(np.float32), RNG.normal(size=6).astype(np.float32)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    path = tmp_path_factory.mktemp("losses") / "given.json"
    given = {"vectors": VECTORS.tolist(), "labels": LABELS.tolist(), "temperature": TEMPERATURE, "dims": DIMS}
    path.write_text(json.dumps(given), encoding="utf-8")
    code = (GOLDENS / "torch_embedding_losses.py").read_text(encoding="utf-8")
    return json.loads(other_envs.run(other_envs.sentence_transformers_python(), code, path))


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(), DIMS])
@pytest.mark.parametrize("loss", ["in_batch_negatives", "margin_mse"])
def test_losses_are_sentence_transformers(loss, dims, theirs):
    task = EmbeddingTask(tiny.config(), loss=loss, loss_temperature=TEMPERATURE, matryoshka_dims=dims)
    batch = {"input_ids": np.arange(36).reshape(6, 3, 2), "input_mask": np.ones([6, 3, 2], np.int32),
             "is_real_example": tf.ones(6), "label_values": tf.constant(LABELS)}  # fmt: skip
    vectors = tf.constant(VECTORS)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = task.loss(vectors, {name: tf.convert_to_tensor(each) for name, each in batch.items()},
                          {"examples": tf.constant(6.0)})  # fmt: skip
    expected, gradient = theirs[f"{loss} of {DIMS}" if dims else loss]
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, vectors), gradient, atol=1e-5 * np.abs(gradient).max())
