"""Averaged weights: the mean itself, and what a run makes of it."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from bert_tf.training.weight_average import WeightAverage
from tests import tiny

HEAD = "classifier/output_weights"
SHARE = 0.4


@pytest.mark.parametrize(("share", "steps"), [(1.0, 7), (0.5, 7), (0.1, 99)])
def test_the_mean(share, steps):
    weights = np.random.default_rng(0).normal(size=(steps, 3)).astype(np.float32)
    variable = keras.Variable(np.full(3, 99, np.float32))  # the start does not count
    average = WeightAverage([variable], share)
    for step in range(1, steps + 1):
        variable.assign(weights[step - 1])
        average.update(tf.distribute.get_strategy(), tf.constant(step), tf.constant(1.0))
        variable.assign([np.nan] * 3)
        variable.assign(weights[step - 1])
        average.update(tf.distribute.get_strategy(), tf.constant(step), tf.constant(0.0))  # the next one was skipped
    counts, k = [1.0], 2 / share - 1
    for step in range(2, steps + 1):
        new = k / (step + k - 1)
        counts = [count * (1 - new) for count in counts] + [new]
    np.testing.assert_allclose(average.means[0], np.array(counts) @ weights, atol=1e-5)
    assert share < 1 or np.allclose(counts, 1 / steps)
    age = np.dot(counts, np.arange(steps)[::-1])
    assert share * steps / 2 - 1 < age < share * steps / 2 + 1  # as of a plain mean over the last share


def _mean_of(weights):
    k, mean = 2 / SHARE - 1, 0
    for step, now in enumerate(weights, 1):
        mean = mean + k / (step + k - 1) * (now - mean)
    return mean


def _job(folder, steps=6, **changes):
    keras.utils.set_random_seed(0)
    values = {"learning_rate": 1e-2, "save_checkpoints_steps": 3, "keep_optimizer": True, **changes}
    return Trainer(tiny.shallow(ClassificationTask)(tiny.config(), 2), RunConfig(os.fspath(folder), 8, steps, **values))


def _head(model):
    return next(v for v in model.variables if v.path == HEAD).numpy()


def _train(job, held_out=None):
    """Returns the head after each step, as training goes on from it."""
    heads = []

    class Watch:
        start = trained = evaluated = write_page = has = lambda self, *_: None

        def __call__(self, step, results, state):
            heads.append(_head(state.model))

    job.history = Watch()
    job.fit(BatchSettings(16).training(tiny.tokenized(40), job.run), held_out=held_out)
    return heads


@pytest.mark.slow
def test_the_result_is_the_mean_and_training_is_what_it_was(tmp_path, monkeypatch):
    held_out, scored = BatchSettings(16).scoring(tiny.tokenized(30, seed=9), 8), []
    job = _job(tmp_path / "mean", average_weights=SHARE)
    take = job._scorer_of

    def scorer(model):
        scored.append(_head(model))
        return take(model)

    monkeypatch.setattr(job, "_scorer_of", scorer)
    heads, plain = _train(job, held_out), _job(tmp_path / "plain")
    for mine, theirs in zip(heads, _train(plain, held_out), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for step in (3, 6):
        saved = read_tensors(str(tmp_path / "mean" / f"model.ckpt-{step}"))
        np.testing.assert_array_equal(saved["training/unaveraged/output_weights"], heads[step - 1])
        np.testing.assert_allclose(saved["output_weights"], _mean_of(heads[:step]), atol=1e-6)
        np.testing.assert_array_equal(saved["output_weights"], scored[step // 3 - 1])
    np.testing.assert_array_equal(_head(job.model), saved["output_weights"])
    assert np.abs(_head(job.model) - heads[-1]).max() > 1e-3
    again = _job(tmp_path / "mean", average_weights=SHARE)
    again.restore()
    assert (again.outputs(held_out) == job.outputs(held_out)).all()
    assert plain.run.identity()["average_weights"] == 0
    assert not any("unaveraged" in name for name in read_tensors(str(tmp_path / "plain" / "model.ckpt-6")))


@pytest.mark.slow
def test_without_the_optimizer_the_mean_is_kept_and_what_training_went_on_from_is_not(tmp_path):
    values, held_out = (
        {"average_weights": SHARE, "keep_optimizer": False},
        BatchSettings(16).scoring(tiny.tokenized(8), 8),
    )
    job = _job(tmp_path, steps=2, **values)
    assert len(_train(job)) == 2
    saved = read_tensors(str(tmp_path / "model.ckpt-2"))
    assert not any(name.endswith("/adam_m") or "unaveraged" in name for name in saved)
    again = _job(tmp_path, steps=2, **values)
    assert not _train(again)
    for finished in (job, again):
        np.testing.assert_array_equal(_head(finished.model), saved["output_weights"])
    assert (again.outputs(held_out) == job.outputs(held_out)).all()
