"""What a range test of the learning rate says: its curve, the rate that follows from it, and the page's plot."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.utils.report import ACCENT, FILL, INK, PALE, Page

_WIDTH = 3.0  # steps: standard deviation of the bell curve that the losses are smoothed with
_RISE = 1.1  # so many times the least smoothed loss is too much
_BELOW = 12  # the rate is the last good one divided by this
_FEWEST = 10  # steps without which a curve says nothing


@dataclasses.dataclass(frozen=True)
class RangeTest:
    """The curve of a range test, and what is made of it.

    The rule looks for the edge beyond which training comes apart, since that is where curves of all tasks agree: the
    last step whose smoothed loss is at most 1.1 times the least one. The run's rate is a twelfth of the edge's, to
    two digits. Neither the least loss nor the steepest fall says as much: in so few steps they follow the luck of the
    batches, and how large the logits of the new head happen to be.

    Attributes:
        rates: of each step, rising.
        losses: of each step's batch, before it moved the weights; finite.

    Raises:
        ValueError: there are too few steps.
    """

    rates: Sequence[float]
    losses: Sequence[float]

    def __post_init__(self):
        if len(self.losses) < _FEWEST:
            raise ValueError(
                "`learning_rate=auto` must find rates at which the loss is a number. Received one that is none after "
                f"{len(self.losses)} steps, at the lowest rates; look at the data and the weights to start from."
            )

    @property
    def smoothed(self) -> np.ndarray:
        """float64 [steps]: the losses, each the mean of its neighbours, weighted by a bell curve."""
        steps = np.arange(len(self.losses))
        weights = np.exp(-0.5 * ((steps[:, None] - steps) / _WIDTH) ** 2)
        return weights @ np.asarray(self.losses, np.float64) / weights.sum(1)

    @property
    def edge(self) -> float:
        """The highest rate at which the loss was still good."""
        smoothed = self.smoothed
        return float(self.rates[np.flatnonzero(smoothed <= _RISE * smoothed.min())[-1]])

    @property
    def learning_rate(self) -> float:
        """The rate that the run is to have."""
        return float(f"{self.edge / _BELOW:.1e}")

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values, of which the first two make the same test again."""
        return {**dataclasses.asdict(self), "edge": self.edge, "learning_rate": self.learning_rate}


def from_dict(values: dict) -> RangeTest:
    """Returns the test that `to_dict` described."""
    return RangeTest(values["rates"], values["losses"])


def add_to(page: Page, test: RangeTest):
    """Adds the test to a run's page."""

    def draw(axes):
        axes.plot(test.rates, test.losses, ".", color=PALE, label="of a step's batch")
        axes.plot(test.rates, test.smoothed, color=FILL, linewidth=1.5, label="smoothed")
        axes.axvline(test.edge, color=INK, linewidth=1, linestyle=":", label=f"the edge, {test.edge:.1e}")
        axes.axvline(test.learning_rate, color=ACCENT, linewidth=1.5, label=f"the rate, {test.learning_rate:.1e}")
        axes.set_xscale("log")
        powers = range(math.floor(math.log10(test.rates[0])), math.ceil(math.log10(test.rates[-1])) + 1)
        axes.set_xticks([10.0**n for n in powers], [f"1e{n}" for n in powers])  # else they are formulas
        axes.minorticks_off()
        axes.set_xlim(0.8 * test.rates[0], 1.25 * test.rates[-1])
        axes.set_ylim(0, 3 * float(np.min(test.smoothed)) if np.max(test.losses) > 3 * np.min(test.smoothed) else None)
        axes.set_xlabel("learning rate")
        axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))

    page.figure("Range test of the learning rate: the loss", draw, height=2.4)
    page.text(
        f"{len(test.losses)} steps from the weights to start from, each at a higher rate than the one before, and "
        f"then undone. The edge is the last step whose smoothed loss is at most {_RISE:g} times the least; the run's "
        f"rate is 1/{_BELOW} of the rate there."
    )
