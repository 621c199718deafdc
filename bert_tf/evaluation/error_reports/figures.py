"""Plots on matplotlib's Axes. Colors are never the only difference: shapes or positions differ too."""

import numpy as np

from bert_tf.evaluation.calibration import Bins
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE

_DOTS = 2000  # of a scatter at most: more would only hide each other
_LETTERS = 18  # of a name next to a plot


def draw_calibration(axes, bins: Bins):
    """Draws a reliability diagram: each bin's accuracy as a bar, its mean probability as a dot, and the diagonal."""
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    there, width = bins.counts > 0, edges[1]
    axes.bar(edges[:-1][there] + width / 2, bins.right[there], 0.9 * width, color=FILL, label="accuracy")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="perfect calibration")
    axes.plot(bins.mean[there], bins.right[there], color=ACCENT, marker="o", markersize=4, linestyle="none",
              markeredgecolor=INK, markeredgewidth=0.5, label="mean probability")  # fmt: skip
    first = np.flatnonzero(there)[0]
    axes.set_xlim(edges[first] if first > 2 else 0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("accuracy")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderpad=0, columnspacing=1, handlelength=1.5,
                fontsize=8)  # fmt: skip


def draw_confusions(axes, names, shares):
    """Draws a confusion matrix: a square's area is a share, float [L, L] of the rows' totals."""
    rows, columns = np.nonzero(shares)
    size = 230 / len(names)  # points between two rows
    for diagonal, colour in ((True, FILL), (False, ACCENT)):
        chosen = (rows == columns) == diagonal
        area = np.maximum(shares[rows, columns][chosen], 0.004) * (0.9 * size) ** 2
        axes.scatter(columns[chosen], rows[chosen], s=area, marker="s", color=colour, linewidths=0)
    short = list(map(_shortened, names))
    letters = max(3.5, min(9, 0.8 * size))
    axes.set_xticks(range(len(names)), short, rotation=90, fontsize=letters)
    axes.set_yticks(range(len(names)), short, fontsize=letters)
    axes.tick_params(length=0)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_aspect("equal")
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.grid(color=PALE, linewidth=0.2)
    axes.set_axisbelow(True)


def draw_bars(axes, names, values, title):
    """Draws horizontal bars from 0 to 1, the first on top, with their numbers."""
    axes.barh(range(len(names)), values, color=FILL, height=0.7)
    for n, value in enumerate(values):
        axes.text(min(value + 0.01, 0.93), n, f"{value:.2f}", va="center", fontsize=7)
    axes.set_yticks(range(len(names)), [_shortened(name) for name in names], fontsize=8)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(title)


def _shortened(name):
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def draw_scatter(axes, gold, given, gold_name, given_name, is_same_scale=True):
    """Draws predictions against labels; on one scale with the line of equality."""
    step = max(1, -(-len(gold) // _DOTS))
    axes.scatter(gold[::step], given[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    if is_same_scale:
        ends = [min(gold.min(), given.min()), max(gold.max(), given.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(gold_name)
    axes.set_ylabel(given_name)


def draw_residuals(axes, lengths, errors, unit):
    """Draws each prediction's error by the length of its text."""
    step = max(1, -(-len(errors) // _DOTS))
    axes.scatter(lengths[::step], errors[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    axes.axhline(0, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(unit)
    axes.set_ylabel("predicted \N{MINUS SIGN} true")
