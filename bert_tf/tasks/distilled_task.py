"""Training on labels and a teacher's outputs at once: distillation (Hinton et al. 2015, section 2)."""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.losses import sum_losses
from bert_tf.tasks.trainable_task import Outputs, Tensors, TrainableTask


class DistilledTask(TrainableTask):
    """A task with a distillation loss: (1 - w) times its own loss plus w times the distance to a teacher.

    Metrics, including `loss`, are those of the task.

    Args:
        task: any task with `distillation_losses`.
        teacher: maps a batch to the outputs of another model for the same task and labels. Its variables do not belong
            to the model: they are neither trained nor saved.
        temperature: temperature of both models' outputs in their distance.
        weight: w, from 0 to 1.
    """

    def __init__(
        self, task: FineTuningTask, teacher: Callable[[Tensors], Outputs], temperature: float = 2.0, weight: float = 0.5
    ):
        self.config, self.features, self.targets = task.config, task.features, task.targets
        self.head, self.uses_pooler, self.metric_names = task.head, task.uses_pooler, task.metric_names
        self.loss_of_batch, self.temperature = task.loss_of_batch, temperature
        self.loss_weights = {"label_loss": 1 - weight, "teacher_loss": weight}
        self._task, self._teacher = task, teacher

    def build_model(self):
        return self._task.build_model()

    def loss_normalizers(self, batch):
        return self._task.loss_normalizers(batch)

    def extra_targets(self, batch):
        return {"teacher_outputs": self._teacher(batch)}

    def loss_parts(self, outputs, batch, normalizers):
        """Computes the task's loss and the weighted mean of the examples' distance to the teacher."""
        far = self._task.distillation_losses(outputs, batch["teacher_outputs"], batch, self.temperature)
        return {
            "label_loss": self._task.loss(outputs, batch, normalizers),
            "teacher_loss": tf.math.divide_no_nan(sum_losses(far, batch), normalizers["examples"]),
        }

    def example_losses(self, outputs, batch):
        return self._task.example_losses(outputs, batch)

    def reduce_outputs(self, outputs, batch):
        return self._task.reduce_outputs(outputs, batch)

    def metrics(self, outputs, encoded):
        return self._task.metrics(outputs, encoded)
