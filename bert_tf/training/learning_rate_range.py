"""The curve of a learning-rate range test, and the learning rate that `learning_rate=auto` chooses from it.

`automatic_learning_rate.measure_lr_range` runs the test.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

_BELL_WIDTH = 3.0  # steps: standard deviation of the Gaussian that smooths the losses
_FEWEST = 10  # fewest steps for a meaningful curve


@dataclasses.dataclass(frozen=True)
class RangeTest:
    """The loss curve of a learning-rate range test, and the learning rate chosen from it.

    The rule looks for the edge beyond which training becomes unstable, because it is well defined for all tasks: the
    last step whose smoothed loss is at most 1.1 times the lowest one. The run's learning rate is 1/12 of the edge's, to
    two digits. The lowest loss and the steepest descent are less reliable: in so few steps they depend on chance in the
    batches and in the logits of the new head.

    Attributes:
        rates: learning rate of each step, ascending.
        losses: loss of each step's batch before the update; finite.

    Raises:
        ValueError: there are too few steps.
    """

    RISE: ClassVar = 1.1  # a smoothed loss above this many times the lowest is too high
    BELOW: ClassVar = 12  # the learning rate is the edge's divided by this

    rates: Sequence[float]
    losses: Sequence[float]

    def __post_init__(self):
        if len(self.losses) < _FEWEST:
            raise ValueError(
                "`learning_rate=auto` failed: the loss was NaN or infinite after "
                f"{len(self.losses)} steps, at the lowest learning rates. Check the data and the initial weights."
            )

    @property
    def smoothed(self) -> np.ndarray:
        """float64 [steps]: the losses, smoothed with a Gaussian."""
        steps = np.arange(len(self.losses))
        weights = np.exp(-0.5 * ((steps[:, None] - steps) / _BELL_WIDTH) ** 2)
        return weights @ np.asarray(self.losses, np.float64) / weights.sum(1)

    @property
    def edge(self) -> float:
        """The highest learning rate at which the loss was still good."""
        smoothed = self.smoothed
        return float(self.rates[np.flatnonzero(smoothed <= self.RISE * smoothed.min())[-1]])

    @property
    def learning_rate(self) -> float:
        """The learning rate for the run."""
        return float(f"{self.edge / self.BELOW:.1e}")

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; the first two suffice to reconstruct the test."""
        return {**dataclasses.asdict(self), "edge": self.edge, "learning_rate": self.learning_rate}
