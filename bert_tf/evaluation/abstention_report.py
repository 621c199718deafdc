"""The section of the report on withheld predictions: coverage and accuracy by threshold."""

import numpy as np

from bert_tf.evaluation.abstention import Abstention, RiskCoverageCurve
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import ACCENT, FILL, INK, Page

_MARKS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # coverages in the table


def add_abstention(page: Page, curve: RiskCoverageCurve, abstention: Abstention | None, share: float):
    """Adds the risk-coverage curve, and the results at the chosen threshold.

    Args:
        page: to add to.
        curve: risk-coverage curve of the scored examples.
        abstention: the chosen threshold, or None if none reaches the share.
        share: target accuracy of the accepted predictions.
    """
    page.heading("Selective prediction")
    if abstention is None:
        page.text(f"No threshold reaches an accuracy of {100 * share:g}%: no prediction is marked as confident.")
    else:
        page.text(
            f"Predictions with a probability of at least {abstention.threshold:.4f} are marked as confident. The "
            f"target accuracy of these is {100 * share:g}\N{NO-BREAK SPACE}%. If the threshold was chosen on these "
            "examples, expect slightly less on others."
        )
    page.figure(None, lambda axes: plot_risk(axes, curve, abstention, share), label="Risk-coverage curve")
    indices = [int(np.argmin(np.abs(curve.coverage - mark))) for mark in _MARKS]
    rows = [(percent(curve.coverage[i]), percent(curve.accuracy[i]), f"{curve.confidence[i]:.4f}")
            for i in dict.fromkeys(indices)]  # fmt: skip
    page.table(None, rows, ("coverage", "accuracy", "threshold"))


def plot_risk(axes, curve: RiskCoverageCurve, abstention: Abstention | None, share: float):
    """Draws the risk, the error rate of the accepted predictions, by coverage, the fraction that is accepted."""
    axes.plot(curve.coverage, 1 - curve.accuracy, color=FILL, linewidth=1)
    axes.axhline(1 - share, color=INK, linewidth=1, linestyle="--", label=f"target risk: {1 - share:.3g}")
    if abstention is not None and (given := curve.confidence >= abstention.threshold).any():
        last = int(np.flatnonzero(given)[-1])
        axes.plot(curve.coverage[last], 1 - curve.accuracy[last], color=ACCENT, marker="o", linestyle="none",
                  markeredgecolor=INK, label=f"threshold {abstention.threshold:.4f}")  # fmt: skip
    axes.set_xlim(0, 1.02)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("coverage (fraction of predictions accepted)")
    axes.set_ylabel("risk (error rate of these)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0, columnspacing=1)
