"""The losses that benchmarks/fine_tuning_ideas.py compares are those of the papers, computed again in NumPy."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny
from tests.conftest import ROOT

SEED = tf.constant([7, 3])
N = 4


@pytest.fixture(scope="module")
def ideas():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        import training_ideas

        return training_ideas


def make_step(dropout, kind=(2, "single_label")):
    keras.utils.set_random_seed(5)
    task = ClassificationTask(tiny.config(dropout), *kind)
    model = task.build_model()
    model.get_layer("classifier").output_weights.assign(np.random.default_rng(1).normal(size=(kind[0], 32)))
    targets = {"label_values": np.linspace(0, 3, N, dtype=np.float32)} if kind[1] == "regression" else {}
    batch = next(iter(tiny.batches(tiny.tokenized(N, **targets), N)))
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    return types.SimpleNamespace(task=task, model=model), batch, {"examples": tf.constant(float(N))}


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(logits, labels):
    return -np.take_along_axis(log_softmax(logits), np.asarray(labels)[:, np.newaxis], -1).mean()


def symmetric_divergence(a, b):
    a, b = log_softmax(a), log_softmax(b)
    return ((np.exp(a) - np.exp(b)) * (a - b)).sum(-1).mean() / 2


def assert_gradients(step, gradients, loss_of):
    """The gradients are those of `loss_of()`, a loss put together from outputs."""
    variables = [v.value for v in step.model.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = loss_of()
    for found, wanted in zip(gradients, tape.gradient(loss, variables), strict=True):
        np.testing.assert_allclose(found, tf.convert_to_tensor(wanted), atol=2e-6)


def loss_and_divergence(outputs, others, labels, of_both):
    """Cross-entropy of the outputs, or the mean of that of both, and their symmetric divergence, as tensors."""
    a, b = (tf.nn.log_softmax(each) for each in (outputs, others))
    own = [-tf.reduce_mean(tf.gather(each, labels, batch_dims=1)) for each in ((a, b) if of_both else (a,))]
    return tf.add_n(own) / len(own) + tf.reduce_mean(tf.reduce_sum((tf.exp(a) - tf.exp(b)) * (a - b), -1)) / 2


def numeric_slopes(loss_of, tensor, places, width=1e-2):
    """Returns the slopes of a loss along some of the numbers of a float32 tensor, by central differences."""
    slopes = []
    for place in places:
        sides = []
        for sign in (1, -1):
            moved = tensor.numpy()
            moved[place] += sign * width
            sides.append(float(loss_of(tf.constant(moved))))
        slopes.append((sides[0] - sides[1]) / (2 * width))
    return slopes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["standard", "r_drop", "multi_sample"])
def test_without_dropout_the_loss_and_its_gradients_are_the_tasks_own(ideas, name):
    step, batch, normalizers = make_step(0.0)
    loss, gradients = getattr(ideas, name)(step, batch, normalizers, SEED)
    with tf.GradientTape() as tape:
        outputs = step.model({each: batch[each] for each in step.task.features}, training=True)
        own = step.task.loss(outputs, batch, normalizers)
    expected = tape.gradient(own, [v.value for v in step.model.trainable_variables])
    np.testing.assert_allclose(loss, own, atol=1e-6)
    for found, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, tf.convert_to_tensor(wanted), atol=1e-6)


@pytest.mark.slow
def test_r_drop_adds_the_divergence_of_two_passes(ideas):
    step, batch, normalizers = make_step(0.3)
    loss, gradients = ideas.r_drop(step, batch, normalizers, SEED)
    twice = {name: tf.concat([values, values], 0) for name, values in batch.items()}

    def logits():
        return tf.split(ideas.classify(step, ideas.pool(step, twice, SEED), SEED), 2)

    a, b = (each.numpy() for each in logits())
    assert np.abs(a - b).max() > 1e-2  # the masks differ
    labels = batch["label_ids"]
    own = (cross_entropy(a, labels) + cross_entropy(b, labels)) / 2
    np.testing.assert_allclose(loss, own + symmetric_divergence(a, b), rtol=1e-5)
    assert_gradients(step, gradients, lambda: loss_and_divergence(*logits(), labels, of_both=True))


def test_r_drop_of_scores_adds_their_squared_difference(ideas):
    step, batch, normalizers = make_step(0.3, (1, "regression"))
    loss, _ = ideas.r_drop(step, batch, normalizers, SEED)
    twice = {name: tf.concat([values, values], 0) for name, values in batch.items()}
    a, b = np.split(ideas.classify(step, ideas.pool(step, twice, SEED), SEED).numpy()[:, 0], 2)
    score = batch["label_values"].numpy()
    own = (((a - score) ** 2).mean() + ((b - score) ** 2).mean()) / 2
    np.testing.assert_allclose(loss, own + ((a - b) ** 2).mean(), rtol=1e-5)


@pytest.mark.slow
def test_multi_sample_is_the_mean_over_masks_of_the_head(ideas):
    step, batch, normalizers = make_step(0.3)
    loss, _ = ideas.multi_sample(step, batch, normalizers, SEED)
    pooled = ideas.pool(step, batch, SEED)
    seeds = [SEED + tf.constant([7919 * number, 0]) for number in range(ideas.HEAD_SAMPLES)]
    losses = [cross_entropy(ideas.classify(step, pooled, seed), batch["label_ids"]) for seed in seeds]
    assert np.ptp(losses) > 1e-4
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)


def test_noise_is_added_to_the_embeddings_of_words(ideas):
    step, batch, _ = make_step(0.0)
    noise = tf.zeros([*batch["input_ids"].shape, 32])
    plain, added = ideas.pool(step, batch, SEED), ideas.pool(step, batch, SEED, noise)
    np.testing.assert_allclose(plain, added, atol=1e-6)
    first = ideas.first_noise(step, batch, SEED).numpy()
    assert not first[batch["input_mask"].numpy() == 0].any()
    norms = np.sqrt((first**2).sum((1, 2)))
    np.testing.assert_allclose(norms, ideas.NOISE_START / np.sqrt(3), rtol=0.1)  # uniform numbers, in a ball


def test_free_lb_is_the_mean_of_losses_as_the_noise_climbs(ideas):
    step, batch, normalizers = make_step(0.0)
    loss, gradients = ideas.free_lb(step, batch, normalizers, SEED)

    def loss_at(noise):
        logits = ideas.classify(step, ideas.pool(step, batch, SEED, noise), SEED)
        return step.task.loss(logits, batch, normalizers)

    start = ideas.first_noise(step, batch, SEED)
    _, (*first, uphill) = ideas.differentiate(step, lambda: loss_at(start), start)
    places = [(0, 0, 3), (1, 1, 8), (N - 1, 2, 20)]
    slopes = numeric_slopes(loss_at, start, places)
    np.testing.assert_allclose([uphill.numpy()[place] for place in places], slopes, rtol=0.05, atol=1e-4)
    moved = start + ideas.NOISE_STEP * uphill / tf.norm(uphill, axis=[1, 2], keepdims=True)
    assert loss_at(moved) > loss_at(start)
    np.testing.assert_allclose(loss, (loss_at(start) + loss_at(moved)) / 2, rtol=1e-5)
    _, second = ideas.differentiate(step, lambda: loss_at(moved))
    for found, a, b in zip(gradients, first, second, strict=True):
        np.testing.assert_allclose(found, (a + b) / 2, atol=1e-6)


@pytest.mark.slow
def test_smart_adds_the_divergence_under_noise_that_climbs_it(ideas):
    step, batch, normalizers = make_step(0.0)
    loss, gradients = ideas.smart(step, batch, normalizers, SEED)

    def logits_at(noise):
        return ideas.classify(step, ideas.pool(step, batch, SEED, noise), SEED)

    clean, start = logits_at(None), ideas.first_noise(step, batch, SEED)
    with tf.GradientTape() as tape:
        tape.watch(start)
        a, b = (tf.nn.log_softmax(each) for each in (logits_at(start), clean))
        distance = tf.reduce_mean(tf.reduce_sum((tf.exp(a) - tf.exp(b)) * (a - b), -1)) / 2
    uphill = tape.gradient(distance, start)
    moved = start + ideas.NOISE_STEP * uphill / tf.norm(uphill, axis=[1, 2], keepdims=True)
    added = symmetric_divergence(logits_at(moved), clean)
    assert added > symmetric_divergence(logits_at(start), clean)
    np.testing.assert_allclose(loss, cross_entropy(clean, batch["label_ids"]) + added, rtol=1e-5)
    labels = batch["label_ids"]
    assert_gradients(
        step, gradients, lambda: loss_and_divergence(logits_at(None), logits_at(moved), labels, of_both=False)
    )
