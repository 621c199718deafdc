"""Trains on one and on two virtual CPU devices, and prints as JSON what came out; `two_devices_test.py` runs it.

A process of its own, because virtual devices must be made before TensorFlow is first used.
"""

import contextlib
import json
import os
import sys
import tempfile

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from bert_tf.data import dataset  # noqa: E402
from bert_tf.tasks.classification import ClassificationTask  # noqa: E402
from bert_tf.training import distribution  # noqa: E402
from bert_tf.training.job import Job  # noqa: E402
from bert_tf.training.loop import RunConfig, fit  # noqa: E402
from bert_tf.training.step import StepConfig  # noqa: E402
from tests import tiny  # noqa: E402

EXAMPLES = tiny.tokenized(66)


class Killed(Exception):
    """Stands for SIGKILL."""


def train(strategy, dropout=0.0, folder=None, steps=20, kill_after=None, **step):
    """Returns the losses of the steps that were made."""
    run = RunConfig(folder or tempfile.mkdtemp(), 16, steps, 2, 1e-3, save_checkpoints_steps=5, step=StepConfig(**step))
    order = dataset.training_order(EXAMPLES.lengths, 16, steps, 0)
    losses = []

    def watch(step, results, state):
        losses.append(float(results["loss"]))
        if step == kill_after:
            raise Killed

    with distribution.make_strategy(strategy).scope():
        keras.utils.set_random_seed(0)
        task = ClassificationTask(tiny.config(dropout, num_hidden_layers=1), 2)
        with contextlib.suppress(Killed):
            fit(task, run, lambda start: dataset.batches(EXAMPLES, order[start:], 16, by_length=False), [watch])
    return losses


def outputs(strategy, folder):
    """Returns scores and outputs of the model that was trained in `folder`, over a number that leaves a rest."""
    run = RunConfig(folder, 16, 20)
    with distribution.make_strategy(strategy).scope():
        job = Job(ClassificationTask(tiny.config(num_hidden_layers=1), 2), run, 16)
        job.restore()
        return job.scores(EXAMPLES, 8), job.outputs(EXAMPLES, 8).tolist()


def resumed(folder):
    """Returns the losses of 8 steps with dropout: never stopped, and stopped after the seventh."""
    whole = train("mirrored", 0.2, os.path.join(folder, "whole"), 8)
    parts = train("mirrored", 0.2, os.path.join(folder, "parts"), 8, kill_after=7)
    return {"whole": whole, "stopped": parts, "again": train("mirrored", 0.2, os.path.join(folder, "parts"), 8)}


def uneven():
    try:
        with distribution.make_strategy("mirrored").scope():
            distribution.check_batch_size(9, 1, "--train_batch_size")
    except ValueError as error:
        return str(error)


def float16(strategy):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return train(strategy, steps=3, scale_loss=True)
    finally:
        keras.config.set_dtype_policy("float32")


def main():
    folder = tempfile.mkdtemp()
    results = {
        "one": train("default", folder=folder),
        "two": train("mirrored"),
        "two, accumulated": train("mirrored", accumulation=2, kill_after=3),
        "one, XLA": train("default", use_xla=True),
        "two, XLA": train("mirrored", use_xla=True),
        "float16": [float16("default"), float16("mirrored")],
        "resumed": resumed(folder),
        "outputs": [outputs(strategy, folder) for strategy in ("default", "mirrored")],
        "replicas": distribution.make_strategy("mirrored").num_replicas_in_sync,
        "uneven": uneven(),
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
