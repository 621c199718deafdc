"""A task that can be trained: its model, its loss, and what is kept of the outputs."""

import abc
import types
from collections.abc import Mapping
from typing import Protocol, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.windowed import Windowed
from bert_tf.models.config import EncoderConfig

Tensors = Mapping[str, tf.Tensor]
Outputs: TypeAlias = tf.Tensor | Tensors  # of a model: one tensor, or several by name
ReducedOutputs = np.ndarray | Mapping[str, np.ndarray]  # the same of a whole file, [n, ...]
EncodedExamples = EncodedDataset | Windowed


class BaseTask(Protocol):
    """Base protocol of all tasks: a model's configuration, inputs and head.

    Attributes:
        config: configuration of the encoder.
        features: names of the model's inputs, from `data/features.py`.
        head: path patterns of the task's own head; `checkpoints/heads.py` lists all others.
        uses_pooler: whether the encoder's pooler is used.
    """

    config: EncoderConfig
    features: tuple[str, ...]
    head: tuple[str, ...]
    uses_pooler: bool

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Builds a new functional model from `features` to this task's outputs."""


class TrainableTask(BaseTask, Protocol):
    """A task that `training/` can train and evaluate.

    Attributes:
        targets: names of the features that the loss compares with the outputs.
        metric_names: names of the results of `metrics`.
        loss_weights: weights of the components of the loss, by their names among the metrics: "masked_lm_loss"; empty
            if it has no components.
        loss_of_batch: whether an example's loss depends on the others in its batch, so that a batch which does not fit
            in memory needs gradient caching instead of gradient accumulation.
    """

    targets: tuple[str, ...]
    metric_names: tuple[str, ...]
    loss_weights: Mapping[str, float] = types.MappingProxyType({})
    loss_of_batch: bool = False

    @abc.abstractmethod
    def loss_normalizers(self, batch: Tensors) -> Tensors:
        """Returns the normalizers of the losses, float32 []: sums over the batch, additive over micro-batches."""

    def extra_targets(self, batch: Tensors) -> Tensors:
        """Returns what the loss requires besides `targets`, such as a teacher's outputs: tensors [B, ...] by name.

        A training step computes it for one micro-batch at a time, and adds it to the batch. By default, it is empty.
        """
        return {}

    def loss_parts(self, outputs: Outputs, batch: Tensors, normalizers: Tensors) -> Tensors:
        """Returns {component: float32 []} for the names in `loss_weights`, unweighted; otherwise like `loss`."""
        raise AssertionError("a task must have `loss_weights` and `loss_parts`, or a `loss` of its own")

    def loss(self, outputs: Outputs, batch: Tensors, normalizers: Tensors) -> tf.Tensor:
        """Returns float32 []: the sum of the examples' losses over `normalizers`, which may be of a larger batch.

        By default the weighted sum of the components. A training step computes that sum itself, to report them too.
        """
        parts = self.loss_parts(outputs, batch, normalizers)
        return tf.add_n([weight * parts[name] for name, weight in self.loss_weights.items()])

    @abc.abstractmethod
    def example_losses(self, outputs: Outputs, batch: Tensors) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Returns each example's loss and its weight in the mean over examples, float32 [B] each; or None."""

    @abc.abstractmethod
    def reduce_outputs(self, outputs: Outputs, batch: Tensors) -> Outputs:
        """Returns the outputs to keep of a batch in evaluation and prediction: a tensor [B, ...], or a dict of them.

        It runs in the graph. If batches differ in shape after B, narrower ones are padded with 0.
        """

    @abc.abstractmethod
    def metrics(self, outputs: ReducedOutputs, encoded: EncodedExamples | None) -> dict[str, float]:
        """Computes {metric: value} over a whole file of examples; `outputs` are those of `reduce_outputs`, in numpy."""
