"""LSTMs that read both ways: Keras's numbers and gradients, whatever the padding; the head on a frozen encoder."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.recurrent import BiLSTM, BiLSTMHead
from tests.harness import check_layer, randomize

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5, 6)).astype(np.float32)
MASK = (np.arange(5) < [[5], [3], [1]]).astype(np.int32)


@pytest.mark.slow
def test_harness(tmp_path):
    weights = {"lstm/kernel": (2, 6, 16), "lstm/recurrent_kernel": (2, 4, 16), "lstm/bias": (2, 16)}
    check_layer(BiLSTM, {"units": 4, "name": "lstm"}, (X, MASK), weights, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("is_weighted", "width", "num_layers"), [(True, 6, 2), (False, 12, 1)])
def test_harness_of_the_head(tmp_path, is_weighted, width, num_layers):
    arguments = {"num_labels": 3, "units": 4, "is_weighted": is_weighted, "dropout": 0.2, "initializer_range": 0.05}
    arguments |= {"num_layers": num_layers}
    weights = {"tagger/layer_sum/layer_weights": (2,), "tagger/layer_sum/gamma": ()} if is_weighted else {}
    for n, inputs in enumerate((width, 8)[:num_layers]):
        path = f"tagger/lstm_{n}"
        weights |= {f"{path}/kernel": (2, inputs, 16), f"{path}/recurrent_kernel": (2, 4, 16), f"{path}/bias": (2, 16)}
    weights |= {"tagger/classifier/output_weights": (3, 8), "tagger/classifier/output_bias": (3,)}
    check_layer(BiLSTMHead, arguments, ([X, X[::-1]], MASK), weights, tmp_path, half_dtype="float32")


def test_a_head_of_the_row_reads_both_ends_whatever_the_padding():
    head = BiLSTMHead(3, 4, num_layers=1, of_row=True, dropout=0.0)
    logits = head([X], MASK)
    assert {v.path for v in head.variables} == {
        *(f"tagger/lstm_0/{part}" for part in ("kernel", "recurrent_kernel", "bias")),
        *(f"tagger/classifier/output_{part}" for part in ("weights", "bias")),
    }
    states = head.lstms[0](X, MASK).numpy()
    ends = np.concatenate([states[[0, 1, 2], [4, 2, 0], :4], states[:, 0, 4:]], -1)
    np.testing.assert_allclose(logits, head.classifier(ends), atol=1e-6)
    assert head.get_config() == BiLSTMHead.from_config(head.get_config()).get_config()


def test_it_computes_in_bfloat16_too():
    """As exports with --export_dtype=bfloat16 do, whose weights are so as well."""
    whole, half = (BiLSTMHead(3, 4, num_layers=1, of_row=True, dtype=dtype) for dtype in ("float32", "bfloat16"))
    _ = whole([X], MASK), half([X], MASK)
    assert {variable.dtype for variable in half.variables} == {"bfloat16"}
    half.set_weights(whole.get_weights())
    np.testing.assert_allclose(tf.cast(half([X], MASK), tf.float32), whole([X], MASK), atol=5e-3)


@pytest.fixture(scope="module")
def both():
    ours = BiLSTM(4)
    ours.build((None, None, 6))
    randomize(ours)
    kernel, recurrent, bias = ours.get_weights()
    keras_s = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True, use_cudnn=False))
    keras_s.build((None, None, 6))
    keras_s.set_weights([each[way] for way in (0, 1) for each in (kernel, recurrent, bias)])
    return ours, keras_s


def _run(layer, x, **mask):
    """Returns the outputs, 0 for padding, and the gradients of the sum of their squares."""
    there = tf.cast(MASK, tf.float32)[:, :, tf.newaxis]
    variables = [v.value for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, **mask) * there
        loss = tf.reduce_sum(outputs * outputs)
    return outputs, tape.gradient(loss, [x, *variables])


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [None, pytest.param(True, marks=pytest.mark.slow)])
def test_outputs_and_gradients_are_keras_s(both, jit_compile):
    ours, keras_s = both
    run = tf.function(lambda x: _run(ours, x, input_mask=MASK), jit_compile=jit_compile, autograph=False)
    values, (of_x, *found) = run(tf.constant(X))
    expected, (of_their_x, *theirs) = _run(keras_s, tf.constant(X), mask=tf.cast(MASK, tf.bool))
    np.testing.assert_allclose(values, expected, atol=1e-6)
    np.testing.assert_allclose(of_x, of_their_x, atol=1e-5)
    for n, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, np.stack([theirs[n], theirs[n + 3]]), rtol=1e-4, atol=1e-5)


def test_a_row_is_the_same_however_far_it_is_padded(both):
    ours, _ = both
    alone = ours(X[1:2, :3], MASK[1:2, :3])
    np.testing.assert_allclose(ours(X, MASK)[1:2, :3], alone, atol=1e-6)


def test_a_cell_remembers_at_first():
    layer = BiLSTM(2)
    layer.build((None, None, 3))
    np.testing.assert_array_equal(layer.bias, [[0, 0, 1, 1, 0, 0, 0, 0]] * 2)
