"""The section of the report page on a range test of the learning rate."""

import math

import numpy as np

from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page


def add_range_test(page: Page, test: RangeTest):
    """Adds the loss curve of a learning-rate range test to a run's page."""

    def draw(axes):
        axes.plot(test.rates, test.losses, ".", color=PALE, label="batch loss")
        axes.plot(test.rates, test.smoothed, color=FILL, linewidth=1.5, label="smoothed")
        axes.axvline(test.edge, color=INK, linewidth=1, linestyle=":", label=f"edge {test.edge:.1e}")
        axes.axvline(test.learning_rate, color=ACCENT, linewidth=1.5, label=f"chosen {test.learning_rate:.1e}")
        axes.set_xscale("log")
        powers = range(math.floor(math.log10(test.rates[0])), math.ceil(math.log10(test.rates[-1])) + 1)
        axes.set_xticks([10.0**n for n in powers], [f"1e{n}" for n in powers])  # else they are formulas
        axes.minorticks_off()
        axes.set_xlim(0.8 * test.rates[0], 1.25 * test.rates[-1])
        axes.set_ylim(0, 3 * float(np.min(test.smoothed)) if np.max(test.losses) > 3 * np.min(test.smoothed) else None)
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss")
        axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))

    with page.section("Learning-rate range test"):
        page.figure(None, draw, height=2.4, label="Learning-rate range test")
        page.text(
            f"{len(test.losses)} steps from the initial weights, each at a higher learning rate, then reverted. "
            f"The edge is the last step whose smoothed loss is at most {RangeTest.RISE:g} times the lowest "
            f"one. The chosen learning rate is 1/{RangeTest.BELOW} of the one at the edge."
        )
