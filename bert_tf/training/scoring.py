"""Evaluation and prediction: a model's outputs on examples, and the task's metrics."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.evaluation.metrics import mean_loss
from bert_tf.training.replicas import build_graphs, collect, replica_share
from bert_tf.utils.model_outputs import check_finite_outputs

_REMEDY = "Pass `precision=float32`, or train again with a lower `learning_rate`."


@dataclasses.dataclass(frozen=True)
class EvalBatches:
    """Examples to evaluate or predict, from memory or from a stream of records.

    Attributes:
        batches: returns the batches from the first on, dicts of tensors [B, ...].
        order: int [steps, B], the example at each position of a batch, or -1; if None, they come in their own order,
            and a row whose `is_real_example` is 0 is padding.
        rows: what `Trainable.metrics` compares the outputs with, such as a `dataset.EncodedDataset`; if None, the
            reduced outputs are enough.
    """

    batches: Callable[[], Iterable[dict]]
    order: np.ndarray | None = None
    rows: Any = None


class Evaluator:
    """Runs a task's model without training it, on the current strategy.

    Args:
        task: see `tasks/base.py`.
        model: what its `build_model` returned.
        use_xla: compile the forward pass.
    """

    def __init__(self, task, model, use_xla: bool = False):
        self.task = task
        self.model = model
        self._forward = tf.function(self._outputs, jit_compile=use_xla or None, autograph=False)
        self._graph_of = build_graphs(self._distributed)

    def outputs(self, scoring: EvalBatches) -> tuple[Any, tuple[np.ndarray, np.ndarray] | None]:
        """Returns the outputs as the task reduces them, and the losses; both in the order of the examples.

        The first is the result of `Trainable.reduce_outputs`, an array [n, ...] or a dict of them. The second is what
        `Trainable.example_losses` gives, sums and weights, float32 [n] each; None if the batches have no targets.

        Raises:
            ValueError: an output is NaN or infinite; -inf is allowed, because it marks choices that are excluded.
        """
        parts, real = [], []
        for batch in scoring.batches():
            parts.append(tf.nest.map_structure(collect, self._graph_of(batch)(batch)))
            real.append(np.asarray(batch.get("is_real_example", np.ones(len(batch["input_ids"])))) > 0)
        merged = tf.nest.map_structure(lambda *arrays: _joined(arrays), *parts)
        indices = _indices(np.concatenate(real), scoring.order)
        merged = tf.nest.map_structure(lambda array: array[indices], merged)
        check_finite_outputs(tf.nest.flatten(merged["outputs"]), _REMEDY)
        return merged["outputs"], merged.get("losses")

    def scores(self, scoring: EvalBatches) -> dict[str, float]:
        """Returns the task's metrics and, if the task computes losses per example, their mean as `loss`."""
        outputs, losses = self.outputs(scoring)
        metrics = self.task.metrics(outputs, scoring.rows)
        return metrics if losses is None else {**metrics, "loss": mean_loss(losses)}

    def _distributed(self, batch):
        return tf.distribute.get_strategy().run(lambda whole: self._forward(replica_share(whole)), args=(batch,))

    def _outputs(self, batch):
        outputs = self.model({name: batch[name] for name in self.task.features}, training=False)
        results = {"outputs": self.task.reduce_outputs(outputs, batch)}
        if set(self.task.targets) <= batch.keys():
            losses = self.task.example_losses(outputs, batch)
            results |= {} if losses is None else {"losses": losses}
        return results


def _joined(arrays):
    """Joins arrays [b, ...]; if their widths differ, the narrower ones are padded with 0."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
    fill = [[(0, 0), *((0, wide - own) for wide, own in zip(shape, a.shape[1:], strict=True))] for a in arrays]
    return np.concatenate([np.pad(a, f) if np.any(f) else a for a, f in zip(arrays, fill, strict=True)])


def _indices(real, order):
    """int [n]: the position of each example in the concatenated batches, in the order of the examples."""
    if order is None:
        return np.flatnonzero(real)
    examples = order.reshape(-1)
    indices = np.flatnonzero(examples >= 0)
    return indices[np.argsort(examples[indices], kind="stable")]
