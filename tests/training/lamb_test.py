"""LAMB against algorithm 2 of You et al. 2020 in float64, and against Keras's own LAMB."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.lamb import Lamb
from bert_tf.training.optimizers import OPTIMIZERS
from bert_tf.training.schedules import WarmupPolynomialDecay
from tests import tiny
from tests.training.adamw_test import PATHS, SHAPES, assert_paces, make_variables


def _paper(weights, gradients, rate_of, decay=0.01):
    """Algorithm 2 with phi(z) = z, in float64; only the kernel is decayed and scaled by the trust ratio."""
    m, v = ([np.zeros(w.shape) for w in weights] for _ in range(2))
    weights = [w.astype(np.float64) for w in weights]
    for t, grads in enumerate(gradients, 1):
        for i, g in enumerate(grads):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * np.square(g, dtype=np.float64)
            u = m[i] / (1 - 0.9**t) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-6)
            ratio = 1.0
            if PATHS[i] == "layer/kernel":
                u = u + decay * weights[i]
                ratio = np.linalg.norm(weights[i]) / np.linalg.norm(u)
            weights[i] = weights[i] - rate_of(t - 1) * ratio * u
    return weights, m, v


def _gradients(steps=10):
    rng = np.random.default_rng(1)
    sizes = 10.0 ** np.linspace(-6, 3, steps)  # the small ones show epsilon
    return [[(size * rng.normal(size=shape)).astype(np.float32) for shape in SHAPES] for size in sizes]


def _apply(optimizer, variables, gradients):
    optimizer.build(variables)
    for grads in gradients:
        optimizer.apply([tf.constant(g) for g in grads], variables)


@pytest.mark.parametrize("decay", [0.01, 1.0])
def test_ten_steps_equal_the_paper_s_formula(decay):
    variables, schedule = make_variables(), WarmupPolynomialDecay(1e-2, 20, 3)
    start = [v.numpy() for v in variables]
    expected, m, v = _paper(start, _gradients(), lambda step: float(schedule(step)), decay)
    optimizer = Lamb(schedule, weight_decay_rate=decay)
    _apply(optimizer, variables, _gradients())
    slots = optimizer.slots(variables)
    for i, path in enumerate(PATHS):
        moved = np.abs(expected[i] - start[i]).max()
        assert moved > 1e-3
        np.testing.assert_allclose(variables[i].numpy(), expected[i], rtol=0, atol=1e-5 * moved, err_msg=path)
        np.testing.assert_allclose(slots[f"{path}/adam_m"].numpy(), m[i], rtol=2e-6)
        np.testing.assert_allclose(slots[f"{path}/adam_v"].numpy(), v[i], rtol=2e-6)


def test_without_decay_a_kernel_moves_as_keras_s_own_lamb_moves_it():
    """Keras puts weight decay outside the trust ratio and has a ratio for biases too: so no decay, and the kernel."""
    (ours, *_), (theirs, *_) = make_variables(), make_variables()
    gradients = [grads[:1] for grads in _gradients()]
    _apply(Lamb(1e-2, weight_decay_rate=0.0), [ours], gradients)
    _apply(keras.optimizers.Lamb(1e-2, epsilon=1e-6), [theirs], gradients)
    assert np.abs(ours.numpy() - make_variables()[0].numpy()).max() > 0.001
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=1e-6)


def test_each_variable_has_its_own_rate_and_counts_its_own_steps():
    assert_paces(Lamb, _paper)


def test_bias_correction_is_no_choice():
    config = Lamb(1e-3, beta_1=0.0).get_config()
    assert "bias_correction" not in config and Lamb.from_config(config).bias_correction
    with pytest.raises(TypeError):
        Lamb(bias_correction=False)


def test_a_kernel_of_zeros_has_the_ratio_one():
    (kernel, *_) = make_variables()
    kernel.assign(np.zeros(SHAPES[0]))
    _apply(Lamb(1e-2), [kernel], [[np.full(SHAPES[0], 2.0, np.float32)]])
    np.testing.assert_allclose(kernel.numpy(), np.full(SHAPES[0], -1e-2), rtol=1e-5)


@pytest.mark.slow
def test_it_survives_saving_and_trains_a_model(tmp_path):
    task, examples = ClassificationTask(tiny.config(), 2), tiny.tokenized(64)
    (batch,) = tiny.batches(examples, 64)
    x, y = {name: batch[name].numpy() for name in task.features}, batch["label_ids"].numpy()
    keras.utils.set_random_seed(0)
    model = task.build_model()
    model.compile(OPTIMIZERS["lamb"](5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  jit_compile=False)  # fmt: skip
    history = model.fit(x, y, batch_size=16, epochs=15, verbose=0, shuffle=False).history["loss"]
    assert history[-1] < 0.8 * history[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, Lamb) and again.optimizer.get_config() == model.optimizer.get_config()
    both = [m.fit(x, y, batch_size=16, verbose=0, shuffle=False).history["loss"] for m in (model, again)]
    assert both[0] == pytest.approx(both[1], abs=1e-5)
