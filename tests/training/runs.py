"""Runs of tiny models in tests: trained, killed, continued, and compared to the bit."""

import contextlib
import os

import keras
import numpy as np

from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.data import batch_order, dataset
from bert_tf.training.trainer import Trainer
from tests import tiny

EXAMPLES = tiny.tokenized(40)


class Killed(Exception):
    """Stands for SIGKILL: whatever was in memory is gone."""


def batches(run, examples=EXAMPLES):
    """Returns the batches of a run from any step on, as `Trainer.fit` takes them."""
    order = batch_order.training_order(examples.lengths, run.train_batch_size, run.num_train_steps, run.step.seed)
    return lambda start: dataset.build_batches(examples, order[start:], 16, by_length=False)


class Watch:
    """A callback that keeps losses, calls what is given, and kills the run after one of its steps."""

    def __init__(self, kill_after, on_begin, watch):
        self.kill_after, self.on_begin, self.watch, self.losses = kill_after, on_begin, watch, {}

    def resume(self, step, state):
        self.on_begin(step, state)

    def __call__(self, step, results, state):
        self.losses[step] = float(results["loss"])
        self.watch(step, results, state)
        if step == self.kill_after:
            raise Killed


def fit(task, run, kill_after=None, seed=0, on_begin=lambda *_: None, watch=lambda *_: None):
    """Trains, and returns {step: loss} of the steps made; `watch` is called after each as a callback is."""
    keras.utils.set_random_seed(seed)
    callback = Watch(kill_after, on_begin, watch)
    with contextlib.suppress(Killed):
        Trainer(task, run).fit(batches(run), callbacks=[callback])
    return callback.losses


def saved(folder, step):
    """Returns all that a checkpoint holds."""
    return read_tensors(os.path.join(folder, f"model.ckpt-{step}"))


def assert_equal(one, other):
    """Compares {name: array} to the bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
