"""Out of memory in the first step: it is made again in smaller pieces, and the run is the one cut so from the start."""

import dataclasses
import logging
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.tf1 import read
from bert_tf.data import dataset
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.training.guard import GuardConfig
from bert_tf.training.loop import RunConfig, fit
from bert_tf.training.out_of_memory import micro_batches
from bert_tf.training.step import StepConfig
from tests import tiny

EXAMPLES = tiny.tokenized(40)


class Narrow(ClassificationTask):
    """A task on a device that has memory for `fits` rows: for more, the loss or its gradient cannot be computed."""

    fits, where = 2, "loss"

    def loss(self, outputs, batch, denominators):
        def check(value):
            if len(value) > self.fits:
                raise MemoryError("OOM when allocating tensor")  # TensorFlow makes ResourceExhaustedError of it
            return value

        def allocate(x):
            y = tf.numpy_function(check, [x], x.dtype)
            return tf.ensure_shape(y, x.shape)

        @tf.custom_gradient
        def device(x):
            forward = allocate(x) if self.where == "loss" else tf.identity(x)
            return forward, allocate if self.where == "gradient" else tf.identity

        return super().loss(device(outputs), batch, denominators)


def _task(fits=2, where="loss"):
    task = Narrow(tiny.config(dropout=0.2, num_hidden_layers=1), 2)
    task.fits, task.where = fits, where
    return task


def _run(folder, accumulation=1, rows=8, **step):
    config = StepConfig(seed=3, accumulation=accumulation, **step)
    return RunConfig(os.fspath(folder), rows, 4, learning_rate=1e-3, save_checkpoints_steps=2, step=config)


def _fit(run, task, actions=()):
    keras.utils.set_random_seed(0)
    order = dataset.training_order(EXAMPLES.lengths, run.train_batch_size, run.num_train_steps, 0)
    return fit(task, run, lambda start: dataset.batches(EXAMPLES, order[start:], 16, by_length=False), actions)


def _end(folder, step=4):
    """Returns all that the last checkpoint holds but the settings, which say what the user asked for."""
    return {k: v for k, v in read(os.path.join(folder, f"model.ckpt-{step}")).items() if k != "training/settings"}


def _assert_same(folder, other):
    one, two = _end(folder), _end(other)
    assert one.keys() == two.keys() and one["global_step"] == two["global_step"] == 4
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-6, atol=0, err_msg=name)


def test_sizes_of_a_micro_batch_divide_the_rows():
    assert micro_batches(12) == [12, 6, 4, 3, 2, 1]
    assert micro_batches(1) == [1]


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_run_that_had_to_be_cut_is_one_that_was_cut_from_the_start(tmp_path, caplog, where):
    with caplog.at_level(logging.WARNING):
        state = _fit(_run(tmp_path / "cut"), _task(2, where))
    assert state.step.config.accumulation == 4
    said = [record.getMessage() for record in caplog.records if "Out of memory" in record.getMessage()]
    assert [text.split("(")[0] for text in said] == [
        f"Out of memory in the first step, with {rows} rows at a time on each device " for rows in (8, 4)
    ]
    assert "OOM when allocating tensor" in said[1]
    assert said[1].endswith(
        "Trying again with 2: as with --gradient_accumulation_steps=4 instead of 2. The global batch stays 8 rows."
    )
    _fit(_run(tmp_path / "from_the_start", accumulation=4), _task(8))
    _assert_same(tmp_path / "cut", tmp_path / "from_the_start")


def test_a_resumed_run_is_cut_again_by_the_same_command(tmp_path):
    def kill(step, results, state):
        if step == 3:
            raise KeyboardInterrupt

    run = _run(tmp_path / "parts", guard=GuardConfig(), scale_loss=True)
    with pytest.raises(KeyboardInterrupt):
        _fit(run, _task(), [kill])
    states = []
    _fit(run, _task(), [lambda step, results, state: states.append((step, state))])
    assert [step for step, _ in states] == [3, 4]
    assert int(states[0][1].step.guard.steps_seen) == int(states[0][1].step.finite_steps) == 4  # the first two count
    _fit(_run(tmp_path / "whole", accumulation=4, guard=GuardConfig(), scale_loss=True), _task(8))
    _assert_same(tmp_path / "parts", tmp_path / "whole")


def test_rows_that_cannot_be_halved_are_cut_to_the_next_smaller_divisor(tmp_path):
    assert _fit(_run(tmp_path, rows=6), _task(2)).step.config.accumulation == 3  # 6, 3, 2
