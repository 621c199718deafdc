"""How many answers a model gives, and how many of those are right, where it may give none."""

import numpy as np

from bert_tf.evaluation.abstention import Abstention, Curve
from bert_tf.utils.counts import percent
from bert_tf.utils.report import ACCENT, FILL, INK, Page

_MARKS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # coverages in the table


def show(page: Page, curve: Curve, abstention: Abstention | None, share: float):
    """Adds the curve, and what the threshold that was chosen does.

    Args:
        page: to add to.
        curve: of the scored examples.
        abstention: what was chosen; None: no threshold reaches the share.
        share: of the answers that was to be right.
    """
    page.heading("When it is confident")
    if abstention is None:
        page.text(f"No threshold makes {100 * share:g} % of the answers right: none is called confident.")
    else:
        page.text(
            f"An answer is called confident from a probability of {abstention.threshold:.4f} on, by which "
            f"{100 * share:g} % of the answers given were to be right. Where the threshold was chosen on these very "
            "examples, expect a little less on others."
        )
    page.figure(None, lambda axes: draw(axes, curve, abstention, share), label="Share of right answers by coverage")
    places = [int(np.argmin(np.abs(curve.coverage - mark))) for mark in _MARKS]
    rows = [(percent(curve.coverage[i]), percent(curve.accuracy[i]), f"{curve.confidence[i]:.4f}")
            for i in dict.fromkeys(places)]  # fmt: skip
    page.table(None, rows, ("answers given", "right of these", "from a probability of"))


def draw(axes, curve: Curve, abstention: Abstention | None, share: float):
    """The share of wrong answers (the risk) by the share of answers that are given, from the surest on."""
    axes.plot(curve.coverage, 1 - curve.accuracy, color=FILL, linewidth=1)
    axes.axhline(1 - share, color=INK, linewidth=1, linestyle="--", label=f"asked for: {1 - share:.3g}")
    if abstention is not None and (given := curve.confidence >= abstention.threshold).any():
        last = int(np.flatnonzero(given)[-1])
        axes.plot(curve.coverage[last], 1 - curve.accuracy[last], color=ACCENT, marker="o", linestyle="none",
                  markeredgecolor=INK, label=f"threshold {abstention.threshold:.4f}")  # fmt: skip
    axes.set_xlim(0, 1.02)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("coverage: share of the answers that are given")
    axes.set_ylabel("risk: share of these that is wrong")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0, columnspacing=1)
