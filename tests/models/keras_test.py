"""A classifier put together by a user, with nothing but Keras: compile, fit, save, load_model."""

import keras
import numpy as np
import pytest

from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from tests import tiny

NAMES = ("input_ids", "input_mask", "segment_ids")


def classifier(precision):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in NAMES}
    encoder = Encoder(tiny.config(dropout=0.1), dtype=precision)
    return keras.Model(inputs, ClassificationHead(2, dtype=precision)(encoder(inputs)["pooled_output"]))


def examples(n, seed):
    """Returns rows of 12 ids; the label says whether a good or a bad word is among them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    ids = rng.choice([tiny.VOCAB.index(word) for word in tiny.FILL], (n, 12)).astype(np.int32)
    telling = np.array([[tiny.VOCAB.index(w) for w in words] for words in (tiny.BAD, tiny.GOOD)])
    ids[:, 0], ids[np.arange(n), rng.integers(1, 12, n)] = 2, telling[labels, rng.integers(0, 4, n)]
    return {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}, labels


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_compile_fit_save_load(tmp_path, precision):
    keras.utils.set_random_seed(0)
    model = classifier(precision)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # What Keras would choose is to compile for the CPU, which takes longer than the training here.
    model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"], jit_compile=False)
    model.fit(*examples(640, 1), epochs=2, batch_size=32, verbose=0)
    x, y = examples(200, 2)
    assert (model.predict(x, verbose=0).argmax(-1) == y).mean() > 0.9
    model.save(tmp_path / "classifier.keras")
    loaded = keras.models.load_model(tmp_path / "classifier.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6)
    assert [v.path for v in loaded.variables] == [v.path for v in model.variables]
    assert loaded.variables[0].path == "bert/embeddings/word_embeddings"
    assert loaded.optimizer.iterations == 40  # came along, so that training can go on


def test_weights_alone(tmp_path):
    model, other = classifier("float32"), classifier("float32")
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    x, _ = examples(4, 0)
    np.testing.assert_array_equal(other(x), model(x))
