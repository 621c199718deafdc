"""The plots of the statistics of a corpus, each drawn on matplotlib's Axes."""

import numpy as np

from bert_tf.pretraining.corpus.examples import CHOSEN
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE


def draw_histogram(axes, counts, of: str, law=None):
    """Draws the numbers of examples with 0, 1, ... of something (int [k]), and those that should have (int [k])."""
    edges = np.arange(len(counts) + 1) - 0.5
    axes.stairs(counts, edges, fill=True, color=FILL, label="made")
    if law is not None:
        axes.stairs(law, edges, color=ACCENT, linewidth=1.5, label="the law")
        _explain(axes)
    axes.set_yscale("log")  # nearly all are as long as they may be; on a plain scale these alone would be seen
    axes.set_ylim(bottom=0.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(of)
    axes.set_ylabel("examples")


def draw_replacements(axes, counts, goals):
    """Draws the shares of the predictions that were hidden, swapped and kept (int [3]), and the goals (percent [3])."""
    shares = 100 * counts / counts.sum()
    place = np.arange(len(shares))
    axes.barh(place, shares, color=FILL)
    axes.vlines(goals, place - 0.45, place + 0.45, color=ACCENT, linewidth=2, label="goal")
    _name(axes, ["[MASK]", "random", "kept"])
    for y, share in zip(place, shares, strict=True):
        axes.text(104, y, f"{share:.2f}%", va="center")
    axes.set_xlim(0, 100)
    _explain(axes)
    axes.set_xlabel("percent of the predictions")


def draw_pairs(axes, counts, names):
    """Draws the numbers of second texts of either label, by chance and forced: int [2, 3]."""
    chance = counts[:, CHOSEN]
    forced = counts.sum(axis=1) - chance
    place = np.arange(len(names))
    axes.barh(place, chance, color=FILL, label="by chance")
    axes.barh(place, forced, left=chance, color=PALE, label="forced")
    _name(axes, names)
    _explain(axes)
    axes.set_xlim(0, 1.05 * counts.sum(axis=1).max())
    _count(axes, "examples")


def draw_top(axes, names, counts):
    """Draws how often some tokens are to be predicted."""
    axes.barh(np.arange(len(names)), counts, color=FILL)
    _name(axes, names)
    _count(axes, "predictions")


def _explain(axes):
    """Says above the plot what its colors mean."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)


def _count(axes, of):
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=4, integer=True)  # labels of millions have room
    axes.set_xlabel(of)


def _name(axes, names):
    """Names horizontal bars, the first one at the top."""
    axes.set_yticks(np.arange(len(names)), names, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
