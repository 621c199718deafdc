"""The plots, each drawn on matplotlib's Axes; what colours say, shapes or places say too."""

import numpy as np

from bert_tf.evaluation.calibration import Bins
from bert_tf.utils.report import ACCENT, FILL, INK, PALE

_DOTS = 2000  # of a scatter at most: more would only hide each other
_LETTERS = 18  # of a name beside a plot


def calibration(axes, bins: Bins):
    """The share of right answers in each bin as a bar, its mean probability as a dot, and the line of honesty."""
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    there, width = bins.counts > 0, edges[1]
    axes.bar(edges[:-1][there] + width / 2, bins.right[there], 0.9 * width, color=FILL, label="right")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="honest")
    axes.plot(bins.mean[there], bins.right[there], color=ACCENT, marker="o", markersize=4, linestyle="none",
              markeredgecolor=INK, markeredgewidth=0.5, label="at the mean probability")  # fmt: skip
    first = np.flatnonzero(there)[0]
    axes.set_xlim(edges[first] if first > 2 else 0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("probability")
    axes.set_ylabel("share that is right")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderpad=0, columnspacing=1)


def squares(axes, names, shares):
    """Who is taken for whom: a square's area is a share, float [L, L] of the rows' totals."""
    rows, columns = np.nonzero(shares)
    size = 230 / len(names)  # points between two rows
    for diagonal, colour in ((True, FILL), (False, ACCENT)):
        chosen = (rows == columns) == diagonal
        area = np.maximum(shares[rows, columns][chosen], 0.004) * (0.9 * size) ** 2
        axes.scatter(columns[chosen], rows[chosen], s=area, marker="s", color=colour, linewidths=0)
    short = [name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…" for name in names]
    letters = max(3.5, min(9, 0.8 * size))
    axes.set_xticks(range(len(names)), short, rotation=90, fontsize=letters)
    axes.set_yticks(range(len(names)), short, fontsize=letters)
    axes.tick_params(length=0)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_aspect("equal")
    axes.set_xlabel("given")
    axes.set_ylabel("right")
    axes.grid(color=PALE, linewidth=0.2)
    axes.set_axisbelow(True)


def scatter(axes, gold, given, gold_name, given_name, is_same_scale=True):
    """What was given against what is right; on one scale with the line on which they would be equal."""
    step = max(1, -(-len(gold) // _DOTS))
    axes.scatter(gold[::step], given[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    if is_same_scale:
        ends = [min(gold.min(), given.min()), max(gold.max(), given.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(gold_name)
    axes.set_ylabel(given_name)


def residuals(axes, lengths, errors, unit):
    """By how much each answer is off, by the length of its text."""
    step = max(1, -(-len(errors) // _DOTS))
    axes.scatter(lengths[::step], errors[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    axes.axhline(0, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(unit)
    axes.set_ylabel("given less right")
