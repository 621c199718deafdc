"""A short training on made-up batches, in a process of its own, on one and on two virtual CPU devices.

Of its own, because devices must be made first, and TensorFlow mixes up the sums of two MirroredStrategies in a process
where their shapes differ.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from bert_tf.tasks.trainable_task import TrainableTask
from bert_tf.training import strategies
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests.fake_batches import fake_batch

STEPS = 8


def losses(
    make: Callable[[], tuple[TrainableTask, Iterable[str]]], vocab_size: int, folder: str | None = None, **sizes
):
    """Trains in the scope of the current strategy; rows differ in how much they ask. Returns the loss of each step.

    Args:
        make: returns the task, without dropout, and the names of what a batch of it has.
        vocab_size: of its model.
        folder: of the run; None: one that nobody needs.
        sizes: of the batches, as `fake_batch` takes them.
    """
    keras.utils.set_random_seed(0)
    (task, names), found = make(), []

    def batches(start):
        for number in range(start, STEPS):
            made = fake_batch(names, 16, 12, vocab_size, seed=number % 2, **sizes)
            yield {name: tf.constant(values) for name, values in made.items()}

    run = RunConfig(folder or tempfile.mkdtemp(), 16, STEPS, 2, 1e-3)
    watch = lambda step, results, state: found.append(float(results["loss"]))  # noqa: E731
    Trainer(task, run).fit(batches, callbacks=[watch])
    return found


def report(train: Callable[[], list[float]]):
    """Prints as JSON, for one device and for two, what `train` returns in the scope of a strategy, and how many."""
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {}
    for name in ("default", "mirrored"):
        with strategies.make_strategy(name).scope():
            found[name] = train(), tf.distribute.get_strategy().num_replicas_in_sync
    json.dump(found, sys.stdout)
