"""Trains students on made-up batches, and prints as JSON the losses on one and on two virtual CPU devices.

python -m tests.tasks.distillation.two_devices records     or: task
"""

import sys

from bert_tf.models.distillation_model import DistillationModel
from bert_tf.pretraining.objectives.distillation import DistillationTask
from bert_tf.pretraining.objectives.distillation_losses import COMPARISONS, required_outputs
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.distilled_task import DistilledTask
from tests import tiny
from tests.training import two_virtual_devices

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
        return self._model({name: value for name, value in batch.items() if name in self._model.TAKES}, training=False)


def records():
    """All losses at once, on packed rows; returns the task, and what a batch needs."""
    teacher = EncoderTeacher(DistillationModel(WIDE, required_outputs(COMPARISONS), trainable=False))
    losses = dict.fromkeys((*COMPARISONS, "masked_lm"), 1.0)
    task = DistillationTask(tiny.config(), teacher, losses, packed=True)
    return task, (*task.features, "masked_lm_ids", "masked_lm_weights")


def task():
    teacher = Teacher(ClassificationTask(WIDE, 3).build_model())
    task = ClassificationTask(tiny.config(), 3)
    return DistilledTask(task, teacher), (*task.features, "label_ids", "is_real_example")


def losses():
    make = {"records": records, "task": task}[sys.argv[1]]
    return two_virtual_devices.losses(make, tiny.config().vocab_size, max_predictions=4, max_sentences=2, num_labels=3)


if __name__ == "__main__":
    two_virtual_devices.report(losses)
