"""Trains students on made-up batches, and prints as JSON the losses on one and on two virtual CPU devices.

    python -m tests.teachers.two_devices records     or: task

A process of its own, because devices must be made first, and TensorFlow mixes up the sums of two MirroredStrategies in
a process where their shapes differ.
"""

import json
import sys
import tempfile

import keras
import tensorflow as tf

from bert_tf.data.features import fake_batch
from bert_tf.modeling.distillation import DistillationModel
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.distilled import DistilledTask
from bert_tf.tasks.pretraining.comparisons import COMPARISONS, shown_by
from bert_tf.tasks.pretraining.distillation import DistillationTask
from bert_tf.training import distribution
from bert_tf.training.loop import RunConfig, fit
from tests import tiny

STEPS = 8
WIDE = tiny.config(hidden_size=64)


class Teacher:
    """Random weights that do not move."""

    config, layer = WIDE, 1

    def __init__(self, model):
        self._model = model

    def __call__(self, batch):
        return self._model({name: value for name, value in batch.items() if name in self._model.input}, training=False)


class EncoderTeacher(Teacher):
    def __call__(self, batch):
        return self._model(batch, training=False)


def records():
    """All losses at once, on packed rows; returns the task, and what a batch needs."""
    teacher = EncoderTeacher(DistillationModel(WIDE, shown_by(COMPARISONS), trainable=False))
    losses = dict.fromkeys((*COMPARISONS, "masked_lm"), 1.0)
    task = DistillationTask(tiny.config(), teacher, losses, packed=True)
    return task, (*task.features, "masked_lm_ids", "masked_lm_weights")


def task():
    teacher = Teacher(ClassificationTask(WIDE, 3).build_model())
    task = ClassificationTask(tiny.config(), 3)
    return DistilledTask(task, teacher), (*task.features, "label_ids", "is_real_example")


def losses(make):
    """Trains in the scope of the current strategy, without dropout; rows differ in how much they ask."""
    keras.utils.set_random_seed(0)
    (task, names), found = make(), []

    def batches(start):
        for number in range(start, STEPS):
            more = {"max_predictions": 4, "max_sentences": 2, "num_labels": 3}
            made = fake_batch(names, 16, 12, tiny.config().vocab_size, seed=number % 2, **more)
            yield {name: tf.constant(values) for name, values in made.items()}

    run = RunConfig(tempfile.mkdtemp(), 16, STEPS, 2, 1e-3)
    fit(task, run, batches, [lambda step, results, state: found.append(float(results["loss"]))])
    return found


def main():
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {}
    for name in ("default", "mirrored"):
        with distribution.make_strategy(name).scope():
            made = losses({"records": records, "task": task}[sys.argv[1]])
            found[name] = made, tf.distribute.get_strategy().num_replicas_in_sync
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
