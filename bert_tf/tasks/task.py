"""What a task is. Training, evaluation, prediction and export ask the task; none of them knows a concrete one."""

from typing import Any, Protocol

import keras
import numpy as np


class Task(Protocol):
    """A model and what its outputs mean.

    Attributes:
        features: names of the model's inputs, from `data/features.py`.
        fresh: patterns of variable paths that need not be in the checkpoint which training starts from: the new head.
        unused: patterns of variable paths in that checkpoint which this task has no use for: other heads.
        metric_names: what `metrics` returns.
    """

    features: tuple[str, ...]
    fresh: tuple[str, ...]
    unused: tuple[str, ...]
    metric_names: tuple[str, ...]

    def build_model(self) -> keras.Model:
        """Returns a new functional model from `features` to this task's outputs."""

    def denominators(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns what the losses are divided by, float32 []: sums over the batch, which add up over its parts."""

    def loss(self, outputs: Any, batch: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns float32 []: the sum of the examples' losses over `denominators`, which may be of a greater batch."""

    def example_losses(self, outputs: Any, batch: dict[str, Any]) -> Any:
        """Returns float32 [B]: the loss of each example."""

    @property
    def example_method(self) -> str:
        """Name of the signature that takes tf.Examples: "classify" or "regress"."""

    def answer(self, outputs: Any) -> dict[str, Any]:
        """Returns what is served for the outputs: {name: tensor [B, ...]}."""

    def example_answer(self, outputs: Any) -> dict[str, Any]:
        """Returns what `example_method` serves: `scores` and `classes` [B, L], or `outputs` [B, 1]."""

    def metrics(self, outputs: np.ndarray, targets: dict[str, np.ndarray]) -> dict[str, float]:
        """Returns {metric: score} over a whole file of examples."""
