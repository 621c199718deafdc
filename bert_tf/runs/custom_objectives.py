"""Losses and metrics of users, which replace or extend those of a task."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base import FineTuningTask

_ENDS = ("_score", "_error", "_loss")
Loss = Callable[[Any, Any], tf.Tensor]
Metric = Callable[[Any, Any], float]


def with_objectives(task: FineTuningTask, loss: Loss | None, metrics: Mapping[str, Metric]) -> FineTuningTask:
    """Returns the task with another loss and further metrics.

    Args:
        task: the task.
        loss: function of (targets, outputs) that returns the loss of each example, float32 [B]; it replaces the task's
            loss in training and in evaluation. If None, the task's own.
        metrics: {name: function of (targets, outputs) that returns a number}, called with NumPy arrays of all examples.
            A name ends in `_score` if higher is better, in `_error` or `_loss` if lower is.

    `targets` is the array of the task's targets, such as label ids, or a dictionary of arrays if it has several;
    `outputs` is what the model returns, such as logits [n, L].

    Raises:
        TypeError: `metrics` is not a dictionary.
        ValueError: the loss of the task cannot be replaced, or a name of a metric is taken or has another end.
    """
    if loss is None and not metrics:
        return task
    if not isinstance(metrics, Mapping):
        raise TypeError(f"`metrics` must be a dictionary of functions by name; got {metrics!r:.80}.")
    if loss is not None and task.loss_of_batch:
        raise ValueError(
            f"`loss` cannot be a function for the task {task.name}, whose loss compares the examples of a batch. "
            "Choose one of its losses by name."
        )
    if taken := sorted(metrics.keys() & {*task.metric_names, "loss"}):
        raise ValueError(f"`metrics` has names that the task {task.name} uses itself: {', '.join(taken)}. Rename them.")
    if others := [name for name in metrics if not name.endswith(_ENDS)]:
        raise ValueError(
            f"Names in `metrics` must end in _score if higher is better, in _error or _loss if lower is; got "
            f"{', '.join(others)}."
        )
    own = {"_loss": loss, "_metrics": metrics}
    adapted = object.__new__(type(type(task).__name__, (_WithObjectives, type(task)), own))
    vars(adapted).update(vars(task))
    adapted.metric_names = (*task.metric_names, *metrics)
    return adapted


class _WithObjectives:
    """The methods of a task that a user's loss and metrics change."""

    def loss(self, outputs, batch, normalizers):
        if self._loss is None:
            return super().loss(outputs, batch, normalizers)
        losses = self._own_losses(outputs, batch)
        return tf.reduce_sum(losses * self._weights(batch)) / normalizers["examples"]

    def loss_normalizers(self, batch):
        if self._loss is None:
            return super().loss_normalizers(batch)
        return {"examples": tf.reduce_sum(self._weights(batch))}

    def example_losses(self, outputs, batch):
        if self._loss is None:
            return super().example_losses(outputs, batch)
        losses = self._own_losses(outputs, batch)
        return losses, tf.ones_like(losses)

    def _own_losses(self, outputs, batch):
        losses = tf.cast(type(self)._loss(_targets(self, batch), outputs), tf.float32)
        if losses.shape.rank not in (1, None):
            raise ValueError(
                f"`loss` must return the loss of each example, with the shape [B]; got the shape {losses.shape}; "
                "do not average over the examples (reduction=None in Keras)."
            )
        return losses

    def metrics(self, outputs, encoded):
        plain = copy.copy(self)
        plain.metric_names = self.metric_names[: len(self.metric_names) - len(self._metrics)]
        scores = super(_WithObjectives, plain).metrics(outputs, encoded)
        targets = _targets(self, encoded.targets) if self._metrics else None
        return scores | {name: _number(name, each(targets, outputs)) for name, each in self._metrics.items()}

    def identity(self):
        own = super().identity()
        return own if self._loss is None else own | {"loss": getattr(type(self)._loss, "__qualname__", "custom")}

    def _weights(self, batch):
        return self.example_weights(batch) * batch["is_real_example"]


def _number(name, value):
    try:
        return float(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`metrics`: {name} must return a number; got {value!r:.80}.") from error


def _targets(task, values):
    named = {name: values[name] for name in task.targets}
    return next(iter(named.values())) if len(named) == 1 else named
