"""Trains on one and on two virtual CPU devices, and prints as JSON what came out; `two_devices_test.py` runs it.

    python -m tests.training.two_devices usual      or: options

A process of its own, because virtual devices must be made before TensorFlow is first used.
"""

import contextlib
import itertools
import json
import os
import sys
import tempfile

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from bert_tf.data import batch_order, dataset  # noqa: E402
from bert_tf.tasks.classification.task import ClassificationTask  # noqa: E402
from bert_tf.training.batching import BatchSettings  # noqa: E402
from bert_tf.training.layer_rates import LayerRates  # noqa: E402
from bert_tf.training.loss_spike_guard import GuardConfig  # noqa: E402
from bert_tf.training.optimizers import OPTIMIZERS  # noqa: E402
from bert_tf.training.run_config import RunConfig  # noqa: E402
from bert_tf.training.settings import AdamConfig  # noqa: E402
from bert_tf.training.step import StepConfig, TrainStep  # noqa: E402
from bert_tf.training.strategies import check_batch_size, make_strategy  # noqa: E402
from bert_tf.training.trainer import Trainer  # noqa: E402
from bert_tf.training.weight_average import WeightAverage  # noqa: E402
from tests import tiny  # noqa: E402

EXAMPLES = tiny.tokenized(66)


class Killed(Exception):
    """Stands for SIGKILL."""


def train(strategy, dropout=0.0, folder=None, steps=20, kill_after=None, layers=None, adam=AdamConfig(), **step):  # noqa: B008  (frozen)
    """Returns the losses of the steps that were made."""
    values = {"save_checkpoints_steps": 5, "layer_rates": layers, "adam": adam, "step": StepConfig(**step)}
    run = RunConfig(folder or tempfile.mkdtemp(), 16, steps, 2, 1e-3, **values)
    order = batch_order.training_order(EXAMPLES.lengths, 16, steps, 0)
    losses = []

    def watch(step, results, state):
        losses.append(float(results["loss"]))
        if step == kill_after:
            raise Killed

    with make_strategy(strategy).scope():
        keras.utils.set_random_seed(0)
        task = ClassificationTask(tiny.config(dropout), 2)
        with contextlib.suppress(Killed):
            trainer = Trainer(task, run)
            batches = lambda start: dataset.build_batches(EXAMPLES, order[start:], 16, by_length=False)  # noqa: E731
            trainer.fit(batches, callbacks=[watch])
    return losses


def outputs(strategy, folder):
    """Returns scores and outputs of the model that was trained in `folder`, over a number that leaves a rest."""
    run = RunConfig(folder, 16, 20)
    with make_strategy(strategy).scope():
        job = Trainer(ClassificationTask(tiny.config(), 2), run)
        job.restore()
        scoring = BatchSettings(16).scoring(EXAMPLES, 8)
        return job.scores(scoring), job.outputs(scoring).tolist()


def resumed(folder):
    """Returns the losses of 9 steps with dropout: stopped after the eighth, and gone on from the fifth's checkpoint."""
    folder = os.path.join(folder, "parts")
    stopped = train("mirrored", 0.2, folder, 9, kill_after=8)
    return {"stopped": stopped, "again": train("mirrored", 0.2, folder, 9)}


def uneven():
    try:
        with make_strategy("mirrored").scope():
            check_batch_size(9, 1, "`train_batch_size`")
    except ValueError as error:
        return str(error)


def float16(strategy):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return train(strategy, kill_after=3, scale_loss=True)
    finally:
        keras.config.set_dtype_policy("float32")


class Poisoned(ClassificationTask):
    """A task whose loss is NaN where a row of the batch says so."""

    def loss(self, outputs, batch, denominators):
        return super().loss(outputs, batch, denominators) + tf.reduce_sum(batch["poison"])


def guarded(strategy, optimizer):
    """Returns what 6 steps did of which the fourth is poisoned in its last row: the second device's alone."""
    rows = list(
        dataset.build_batches(EXAMPLES, batch_order.training_order(EXAMPLES.lengths, 16, 6, 0), 16, by_length=False)
    )
    losses, skipped, copies = [], [], []
    with make_strategy(strategy).scope():
        strategy = tf.distribute.get_strategy()
        keras.utils.set_random_seed(0)
        task = Poisoned(tiny.config(), 2)
        model, optimizer = task.build_model(), OPTIMIZERS[optimizer](1e-3)
        optimizer.build(model.trainable_variables)
        average = WeightAverage(model.trainable_variables, 0.4)
        step = TrainStep(task, model, optimizer, StepConfig(guard=GuardConfig()), average)
        slots = optimizer.slots(model.trainable_variables)
        variables = [v.value for v in [*model.variables, *slots.values(), optimizer.iterations]]
        variables += average.means
        for number, batch in enumerate(rows, 1):
            poison = [0.0] * 15 + [float("nan") if number == 4 else 0.0]
            results = step(batch | {"poison": tf.constant(poison)})
            losses.append(float(results["loss"]))
            skipped.append(float(results["skipped"]))
            copies.append([c.numpy().tobytes() for v in variables for c in strategy.experimental_local_results(v)])
        counts = [[int(c) for c in strategy.experimental_local_results(v)]
                  for v in (step.guard.skipped_steps, step.guard.steps_seen)]  # fmt: skip
        means = [[float(tf.reduce_sum(c**3)) for c in strategy.experimental_local_results(m)] for m in average.means]
    equal = [one == other for one, other in itertools.pairwise(copies)]
    return {"losses": losses, "skipped": skipped, "unmoved": equal, "counts": counts, "means": means}


def usual(folder):
    return {
        "one": train("default", folder=folder),
        "two": train("mirrored"),
        "resumed": resumed(folder),
        "outputs": [outputs(strategy, folder) for strategy in ("default", "mirrored")],
        "replicas": make_strategy("mirrored").num_replicas_in_sync,
        "uneven": uneven(),
    }


def options(folder):
    return {
        "one": train("default", folder=folder),
        "two, accumulated": train("mirrored", accumulation=2, kill_after=3),
        "two, packed": train("mirrored", pack_examples=True, kill_after=3),
        "two, packed with XLA": train("mirrored", pack_examples=True, use_xla=True, accumulation=2, kill_after=3),
        "two, XLA": train("mirrored", use_xla=True, kill_after=8),
        "layers": [train(s, layers=LayerRates(1, 0, 0.5, 2), steps=8) for s in ("default", "mirrored")],
        "corrected": [train(s, adam=AdamConfig(bias_correction=True), steps=8) for s in ("default", "mirrored")],
        "float16": float16("mirrored"),
        "guarded": [guarded(strategy, "lamb") for strategy in ("default", "mirrored")],
    }


def main():
    results = {"usual": usual, "options": options}[sys.argv[1]](tempfile.mkdtemp())
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
