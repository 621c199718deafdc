"""A task that is learned from its labels and from a teacher at once (Hinton et al. 2015, section 2)."""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.tasks.protocols import Outputs, Tensors, Trainable
from bert_tf.tasks.task import FineTuned


class DistilledTask(Trainable):
    """What of a task training sees, with another loss: (1 - w) times its own and w times the distance to a teacher.

    Scores, and the `loss` among them, are the task's own.

    Args:
        task: any that has `soft_losses`.
        teacher: from a batch to the outputs of another model for the same task and labels. Its variables are not the
            model's: they are neither trained nor saved.
        temperature: of the teacher's and of the model's outputs in their distance.
        weight: w, from 0 to 1.
    """

    def __init__(
        self, task: FineTuned, teacher: Callable[[Tensors], Outputs], temperature: float = 2.0, weight: float = 0.5
    ):
        self.config, self.features, self.targets = task.config, task.features, task.targets
        self.head, self.uses_pooler, self.metric_names = task.head, task.uses_pooler, task.metric_names
        self.temperature = temperature
        self.loss_weights = {"label_loss": 1 - weight, "teacher_loss": weight}
        self._task, self._teacher = task, teacher

    def build_model(self):
        return self._task.build_model()

    def denominators(self, batch):
        return self._task.denominators(batch)

    def loss_parts(self, outputs, batch, denominators):
        """The task's own loss, and the mean over its examples, by their weights, of their distance to the teacher."""
        far = self._task.soft_losses(outputs, self._teacher(batch), batch, self.temperature)
        far = tf.reduce_sum(far * batch["is_real_example"])
        return {
            "label_loss": self._task.loss(outputs, batch, denominators),
            "teacher_loss": tf.math.divide_no_nan(far, denominators["examples"]),
        }

    def example_losses(self, outputs, batch):
        return self._task.example_losses(outputs, batch)

    def collected(self, outputs, batch):
        return self._task.collected(outputs, batch)

    def metrics(self, outputs, rows):
        return self._task.metrics(outputs, rows)
