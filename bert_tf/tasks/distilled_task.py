"""Knowledge distillation in fine-tuning (Hinton et al. 2015): training on labels and a teacher's outputs."""

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights, check_shapes
from bert_tf.checkpoints.loading import ModelDescription, directory_of, load_description
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.base import FineTuningTask, Outputs, Tensors, TrainableTask
from bert_tf.tasks.losses import sum_losses
from bert_tf.tasks.options import TeacherOptions
from bert_tf.tasks.registry import task_of
from bert_tf.utils.files import brief

# === Distilled task ===
# Training on labels and a teacher's outputs at once (Hinton et al. 2015, section 2).


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


# === Teacher ===
# The teacher model: loaded, compared with its student, frozen, and called in the student's training step.


class Teacher:
    """A frozen teacher; called with a batch, it returns its outputs in inference mode. Create it in a strategy's scope.

    Attributes:
        config: configuration of its encoder.
        layer: the layer whose queries, keys and values it outputs, 1 being the lowest. If None, none.
        digest: a short digest of its weights.
        parameters: its number of parameters.

    Args:
        checkpoint: its weights.
        config, layer: as above.
        model: the model to fill with them.
        excuse: weights that may be missing or unused, as for `assign_weights`.
        features: names of its inputs, including optional ones.
        order: for each of the student's outputs, the index of the same output of the teacher. If None, they are in the
            same order.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: EncoderConfig,
        model: keras.Model,
        allow_unmatched: Iterable[str],
        features: Iterable[str],
        layer: int | None = None,
        order: Sequence[int] | None = None,
    ):
        report = assign_weights(checkpoint, model.variables, allow_unmatched, config.model_type)
        logging.info("%s", report)
        model.trainable = False
        self.config, self.layer = config, layer
        self.parameters = sum(math.prod(variable.shape) for variable in model.variables)
        self.digest = _digest(variable for variable in model.variables if variable.path in report.loaded)
        self._model, self._features, self._order = model, tuple(features), order

    def __call__(self, batch):
        inputs = {name: batch[name] for name in self._features if name in batch}
        # A student of another family may have more segments than the teacher has embeddings for.
        inputs["segment_ids"] = tf.minimum(inputs["segment_ids"], max(self.config.type_vocab_size - 1, 0))
        outputs = self._model(inputs, training=False)
        return outputs if self._order is None else tf.gather(outputs, self._order, axis=-1)


def _digest(variables):
    sha = hashlib.sha256()
    for variable in sorted(variables, key=lambda variable: variable.path):
        sha.update(variable.path.encode())
        sha.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return f"SHA-256 {sha.hexdigest()[:16]}"


def open_teacher(path: str, student: ModelDescription, longest: int) -> tuple[Checkpoint, ModelDescription]:
    """Opens a teacher and checks that it accepts the student's inputs.

    Args:
        path: a checkpoint of any format.
        student: description of the student, without weights.
        longest: maximum sequence length.

    Raises:
        ValueError: the model does not exist, has another vocabulary, or only supports shorter sequences.
    """
    checkpoint = open_checkpoint(path)
    teacher = load_description([directory_of(path)])
    check_shapes(checkpoint, teacher.config)
    _check_vocabulary(path, teacher.tokenizer, student.tokenizer)
    if longest > teacher.config.max_length:
        raise ValueError(
            f"`teacher` must support sequences as long as the student's, {longest} tokens. {path} only supports "
            f"{teacher.config.max_length}; lower `max_seq_length`, or use another teacher."
        )
    if teacher.config.type_vocab_size > 1 and not student.tokenizer.template.second_segment:
        logging.warning("Text pairs: the student's sequences have one segment, but %s was trained with two.", path)
    config = teacher.config
    logging.info("Teacher: %s (%d layers, hidden size %d).", path, config.num_hidden_layers, config.hidden_size)
    return checkpoint, teacher


def _check_vocabulary(path, teacher, student):
    """Raises ValueError if the teacher would encode texts differently from the student."""
    theirs, own = (dict(enumerate(each.vocab)) for each in (teacher, student))
    differing = [n for n in range(max(len(theirs), len(own))) if theirs.get(n) != own.get(n)]
    if differing:
        n = differing[0]
        raise ValueError(
            f"`teacher` must have the student's vocabulary. {path} has {len(theirs)} tokens, the student has "
            f"{len(own)}; {len(differing)} differ, the first with id {n}: {brief(theirs.get(n))} and "
            f"{brief(own.get(n))}. Use the teacher's vocabulary for the student, or another teacher."
        )
    for what, one, other in (
        ("read texts", teacher.settings, student.settings),
        ("add special tokens", _special(teacher), _special(student)),
    ):
        if one != other:
            raise ValueError(
                f"`teacher` must {what} like the student. {os.fspath(path)} has {brief(one)}, but the student has "
                f"{brief(other)}; use another teacher, or correct tokenizer_config.json."
            )


def _special(tokenizer):
    """Returns the special tokens of a sequence with two texts, in order."""
    return tokenizer.template.pieces(2)


def check_temperature(temperature: float):
    """Raises ValueError if the option `distillation_temperature` is 0."""
    if not temperature:
        raise ValueError("`distillation_temperature` must be above 0. Received: 0; 2 is a common choice.")


# === Fine tuning ===
# The teacher of a fine-tuning task: a model fine-tuned for the same task and labels.


def check_teacher(options: TeacherOptions):
    """Raises ValueError if teacher options contradict each other."""
    if options.teacher is not None:
        check_temperature(options.distillation_temperature)


def with_teacher(
    task: FineTuningTask, student: ModelDescription, options: TeacherOptions
) -> tuple[TrainableTask, dict]:
    """Returns the task to train and the teacher's identity; without `teacher`, the task itself.

    Call it in the scope of the strategy.

    Args:
        task: task of the run.
        student: description of the initial model.
        options: options of the run.

    Raises:
        ValueError: the options or the teacher do not match the task.
    """
    if options.teacher is None:
        return task, {}
    if not task.has_temperature and options.given_distillation_temperature is not None:
        raise ValueError(
            "`distillation_temperature` requires labels: for regression, values are compared directly. "
            "Remove it."
        )
    temperature, weight = options.distillation_temperature, options.distillation_weight
    teacher = _teacher(options.teacher, task, student, options.max_seq_length)
    identity = {"teacher": teacher.digest, "distillation_temperature": temperature, "distillation_weight": weight}
    return DistilledTask(task, teacher, temperature, weight), identity


def _teacher(path, task, student, max_seq_length):
    checkpoint, described = open_teacher(path, student, max_seq_length)
    other = task_of(directory_of(path), described).task
    if type(other) is not type(task):
        raise ValueError(
            f"`teacher` must be a model for the student's task, {task.name}. {path} is for {other.name}; use another "
            "one."
        )
    if other.has_windows != task.has_windows:
        raise ValueError(
            "`teacher` must read long texts like the student. "
            f"{path} {'uses' if other.has_windows else 'does not use'} windows; train both with the same "
            "`long_text`."
        )
    order = _order(path, other, task)
    other.every_window = task.every_window
    model, allow_unmatched = other.build_model(), heads.unused(other)
    return Teacher(checkpoint, described.config, model, allow_unmatched, other.features, order=order)


def _order(path, teacher, student):
    """Returns the index of each of the student's labels among the teacher's, or None without names."""
    theirs, own = teacher.labels, student.labels
    if (theirs is None) != (own is None) or theirs is not None and sorted(theirs) != sorted(own):
        raise ValueError(
            f"`teacher` must have the student's labels, {_names(own)}. {path} has {_names(theirs)}; use a model that "
            "was trained on the same labels."
        )
    return None if own is None else [theirs.index(label) for label in own]


def _names(labels):
    return "a number instead of labels" if labels is None else ", ".join(labels)
