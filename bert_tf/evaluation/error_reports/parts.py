"""Sections that several kinds of answers share: rates of each label, who is taken for whom, calibration, lengths."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.evaluation.calibration import Bins, reliability
from bert_tf.evaluation.error_reports import figures
from bert_tf.evaluation.error_reports.judged import Judged, Shown
from bert_tf.evaluation.error_reports.rates import Counts
from bert_tf.utils.counts import percent
from bert_tf.utils.report import Bar, Page, Shade

MOST = 25  # errors that are listed

_RATES = ("precision", "recall", "F1")
_AS_TABLE = 12  # labels of which a confusion matrix is a table of numbers
_AS_FIGURE = 60  # of which it is a drawing; of more the most mixed up are drawn
_PAIRS = 15  # confusions that are listed
_OPEN = 20  # labels whose table stands open
_BINS = 5  # of lengths


class Ratio(NamedTuple):
    """A share of n examples together: the sum of `part` over the sum of `whole`, [n] each; 0 / 0 counts as 0."""

    part: np.ndarray
    whole: np.ndarray


Shares = Mapping[str, np.ndarray | Ratio]  # name -> float [n], 0 to 1, of which the mean is shown; or a ratio


def label_rates(
    page: Page, noun: str, names: Sequence[str], counts: Counts, micro: str, counted: str = "examples"
):
    """Adds how often each label is right and given, and its rates, and their averages.

    Args:
        page: to add to.
        noun: what the L things are, such as "label".
        names: of the L.
        counts: of them.
        micro: what the micro average means here, after "micro: ".
        counted: what they are given to.
    """
    rates, most = counts.rates(), max(counts.gold.max(initial=0), 1)
    rows = [
        (name, Bar(int(gold), gold / most), int(given), int(right), *map(percent, each))
        for name, *(gold, given, right), each in zip(names, *counts, zip(*rates, strict=True), strict=True)
    ]
    columns = (noun, counted, "given", "right", *_RATES)
    with page.section(f"Each {noun}", is_open=len(names) <= _OPEN):
        page.table(None, rows, columns)
    with page.section("Averages"):
        averages = counts.averages().items()
        page.table(None, [(name, *map(percent, each)) for name, each in averages], ("average", *_RATES))
        page.text(
            f"Precision: of the {counted} that were given a {noun}, the share that rightly has it. Recall: of the "
            f"{counted} that rightly have it, the share that was given it. F1: the harmonic mean of the two. What is "
            f"0 / 0 counts as 0.\nmacro: the plain mean over the {noun}s that occur, where a rare one counts as much "
            f"as a frequent one. weighted: the mean in which a {noun} counts as often as it is the right one. "
            f"micro: {micro}"
        )
    if len(names) > _OPEN:
        weakest = np.argsort(np.where(counts.gold > 0, rates.f1, np.inf), kind="stable")[:10]
        with page.section(f"The {noun}s of least F1"):
            page.table(None, [rows[i] for i in weakest if counts.gold[i]], columns)


def confusion(page: Page, noun: str, names: Sequence[str], matrix: np.ndarray, remark: str = ""):
    """Adds which label is taken for which.

    Args:
        page: to add to.
        noun: what they are.
        names: of the L.
        matrix: int [L, L], a row for each right one, a column for each given one.
        remark: to be read below it.
    """
    with page.section("Confusions"):
        if len(names) <= _AS_TABLE:
            _as_table(page, names, matrix)
        else:
            _as_figure(page, noun, names, matrix)
        wrong = matrix * ~np.eye(len(names), dtype=bool)
        pairs = sorted(zip(*np.nonzero(wrong), strict=True), key=lambda pair: -wrong[pair])[:_PAIRS]
        totals = np.maximum(matrix.sum(1), 1)
        if len(names) > 2 and pairs:
            rows = [(names[a], names[b], int(wrong[a, b]), percent(wrong[a, b] / totals[a])) for a, b in pairs]
            page.text("The most frequent confusions; the share is of those that are rightly the first.")
            page.table(None, rows, (f"right {noun}", f"given {noun}", "how often", "share"))
        if remark:
            page.text(remark)


def _as_table(page, names, matrix):
    totals = np.maximum(matrix.sum(1, keepdims=True), 1)
    rows = [(name, *map(Shade, row.tolist(), share)) for name, row, share in zip(names, matrix, matrix / totals,
                                                                                   strict=True)]  # fmt: skip
    page.table(None, rows, ("right ↓   given →", *names))


def _as_figure(page, noun, names, matrix):
    kept, what = np.arange(len(names)), f"{len(names)} {noun}s"
    if len(names) > _AS_FIGURE:
        mixed = matrix.sum(0) + matrix.sum(1) - 2 * np.diag(matrix)
        kept = np.sort(np.argsort(-mixed, kind="stable")[:_AS_FIGURE])
        what = f"the {_AS_FIGURE} of {len(names)} {noun}s that are mixed up most"
    page.text(f"A square's area is its share of the row, the right {noun}; right answers lie on the diagonal.")
    drawn, named = matrix[np.ix_(kept, kept)], [names[i] for i in kept]
    totals = np.maximum(matrix.sum(1)[kept, None], 1)
    page.figure(
        None, lambda axes: figures.squares(axes, named, drawn / totals), 4.6, label=f"Which is taken for which: {what}"
    )


def calibration(page: Page, confidence: np.ndarray, right: np.ndarray, noun: str, remark: str = ""):
    """Adds how honest probabilities are.

    Args:
        page: to add to.
        confidence: float [n], of what was answered.
        right: bool [n].
        noun: what the n are: "answers".
        remark: to be read below.
    """
    if not np.isfinite(confidence).all():
        return
    bins = reliability(confidence, right)
    mean, share = confidence.mean(), right.mean()
    tends = "too sure of itself" if mean > share else "too modest"
    with page.section("Calibration"):
        page.text(
            f"ECE {bins.error:.4f}: by so much the probability of the {noun} and the share of them that is right "
            f"differ, on average over 15 bins of equal width. The mean probability is {percent(mean)}, and "
            f"{percent(share)} are right" + (f": the model is {tends}." if abs(mean - share) >= 0.005 else ".") + remark
        )
        page.figure(None, lambda axes: figures.calibration(axes, bins), label="Probability and share of right answers")
    with page.section("Calibration, as numbers", is_open=False):
        page.table(None, _bin_rows(bins), ("probability", noun, "mean probability", "right"))


def _bin_rows(bins: Bins):
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    return [
        (f"{low:.3f} to {high:.3f}", Bar(int(count), count / bins.counts.max()), percent(mean), percent(right))
        for low, high, count, mean, right in zip(edges[:-1], edges[1:], *bins, strict=True)
        if count
    ]


def by_length(page: Page, examples: Shown, shares: Shares, numbers: Mapping[str, np.ndarray] | None = None):
    """Adds means over examples of about one length.

    Args:
        page: to add to.
        examples: n of them.
        shares: of them.
        numbers: {name: float [n]}, of any size.
    """
    groups = length_groups(examples.lengths)
    with page.section("By length"):
        grouped(page, examples.unit, groups, shares, numbers)


def grouped(
    page: Page,
    noun: str,
    groups: Mapping[str, np.ndarray],
    shares: Shares,
    numbers: Mapping[str, np.ndarray] | None = None,
    counted: str = "examples",
):
    """Adds a table of means over groups, {name: bool [n]}; the other arguments are those of `by_length`."""
    numbers = numbers or {}
    rows = []
    for name, chosen in groups.items():
        cells = [Bar(percent(share), share) for share in (_share(values, chosen) for values in shares.values())]
        means = [f"{values[chosen].mean():.4g}" for values in numbers.values()]
        rows.append((name, int(chosen.sum()), *cells, *means))
    page.table(None, rows, (noun, counted, *shares, *numbers))


def _share(values, chosen):
    if isinstance(values, Ratio):
        return float(values.part[chosen].sum() / max(values.whole[chosen].sum(), 1))
    return float(values[chosen].mean())


def length_groups(lengths: np.ndarray, most: int = _BINS) -> dict[str, np.ndarray]:
    """Returns {"3 to 9": bool [n]}: groups of about as many examples, fewer than `most` where lengths are alike."""
    lengths = np.asarray(lengths)
    edges = np.unique(np.quantile(lengths, np.arange(1, most + 1) / most, method="lower"))
    groups, low = {}, -1
    for high in edges:
        chosen = (lengths > low) & (lengths <= high)
        first = lengths[chosen].min()
        groups[f"{first:,} to {high:,}" if first < high else f"{high:,}"] = chosen
        low = high
    return groups


def listed(page: Page, heading: str, judged: Judged, chosen: Iterable[int], columns: Mapping[str, Sequence], note=""):
    """Adds a table of some examples with their texts: where each is, the columns, {name: n cells}, the texts."""
    examples, chosen = judged.examples, list(chosen)
    with page.section(heading):
        if note:
            page.text(note)
        if not chosen:
            page.text("None.")
            return
        shown = {examples.place_name: examples.places, **columns, **examples.texts}
        page.table(None, [tuple(values[i] for values in shown.values()) for i in chosen], tuple(shown))
