"""The heads: the harness, and Google's orientation of their weights."""

import numpy as np
import pytest

from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from tests.harness import check_layer

X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [1, 3])
def test_harness(tmp_path, labels):
    arguments = {"num_labels": labels, "dropout": 0.2, "initializer_range": 0.05, "name": "classifier"}
    weights = {"classifier/output_weights": (labels, 8), "classifier/output_bias": (labels,)}
    layer = check_layer(ClassificationHead, arguments, (X,), weights, tmp_path, half_dtype="float32")
    kernel, bias = layer.get_weights()
    np.testing.assert_allclose(layer(X), X @ kernel.T + bias, rtol=1e-5, atol=1e-5)


def test_dropout_strikes_the_input():
    layer = ClassificationHead(3, dropout=0.5, initializer_range=0.5)
    assert (layer(X, training=True).numpy() != layer(X).numpy()).all(1).any()


def test_its_name_is_that_of_the_table_of_names():
    layer = ClassificationHead(2)
    layer.build((None, 8))
    assert [v.path for v in layer.variables] == ["classifier/output_weights", "classifier/output_bias"]


def test_the_head_of_questions(tmp_path):
    rows, mask = np.random.default_rng(1).standard_normal((6, 5, 8)).astype(np.float32), np.ones((6, 5), np.int32)
    arguments = {"initializer_range": 0.05, "name": "squad"}
    weights = {"squad/output_weights": (2, 8), "squad/output_bias": (2,)}
    layer = check_layer(QuestionAnsweringHead, arguments, (rows, mask), weights, tmp_path, half_dtype="float32")
    kernel, bias = layer.get_weights()
    mask[:, 3:] = 0
    outputs = layer(rows, mask)
    for i, name in enumerate(("start_logits", "end_logits")):
        expected = rows[:, :3] @ kernel[i] + bias[i]
        np.testing.assert_allclose(outputs[name][:, :3], expected, rtol=1e-5, atol=1e-5)
        assert (outputs[name][:, 3:].numpy() == np.finfo(np.float16).min).all()  # float16 exports keep it


def test_the_head_of_questions_computes_in_bfloat16_too():
    """As exports with --export_dtype=bfloat16 do, whose weights are so as well."""
    rows, mask = X[np.newaxis], np.ones((1, 6), np.int32)
    whole, half = QuestionAnsweringHead(), QuestionAnsweringHead(dtype="bfloat16")
    expected, _ = whole(rows, mask), half(rows, mask)
    half.set_weights(whole.get_weights())
    for name, logits in half(rows, mask).items():
        assert logits.dtype == "float32"
        np.testing.assert_allclose(logits, expected[name], atol=5e-3)
