"""Sections that several error reports share: rates by label, confusions, calibration, means by length, examples."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.evaluation.calibration import Bins, reliability
from bert_tf.evaluation.error_reports.figures import draw_bars, draw_calibration, draw_confusions
from bert_tf.evaluation.error_reports.rates import Counts
from bert_tf.evaluation.error_reports.report import DisplayedExamples, ErrorReport
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import BarCell, Page, Shade

MOST = 25  # errors that are listed

_RATES = ("precision", "recall", "F1")
_AS_TABLE = 12  # labels of which a confusion matrix is a table of numbers
_AS_FIGURE = 60  # of which it is a drawing; of more, the most confused are drawn
_PAIRS = 15  # confused pairs that are listed
_OPEN = 20  # labels whose table is open at first
_BINS = 5  # of lengths
_BARS = 18  # labels at most in a plot of bars


class Ratio(NamedTuple):
    """A fraction of n examples together: the sum of `part` over the sum of `whole`, [n] each; 0 / 0 counts as 0."""

    part: np.ndarray
    whole: np.ndarray


Shares = Mapping[str, np.ndarray | Ratio]  # name -> float [n], 0 to 1, of which the mean is shown; or a ratio


def add_label_rates(page: Page, noun: str, names: Sequence[str], counts: Counts, counted: str = "examples"):
    """Adds precision, recall and F1 of each label, and their averages.

    Args:
        page: to add to.
        noun: what is counted, such as "label".
        names: names of the L labels.
        counts: of them.
        counted: what the labels are assigned to.
    """
    rates, most = counts.rates(), max(counts.gold.max(initial=0), 1)
    rows = [
        (name, BarCell(int(gold), gold / most), int(given), int(right), *map(percent, each))
        for name, *(gold, given, right), each in zip(names, *counts, np.transpose(rates), strict=True)
    ]
    columns = (noun, counted, "predicted", "correct", *_RATES)
    with page.section(f"Precision, recall and F1 by {noun}", is_open=len(names) <= _OPEN):
        page.table(None, rows, columns)
        averages = counts.averages().items()
        page.table(None, [(name, *map(percent, each)) for name, each in averages], ("average", *_RATES))
        page.text(
            f"Precision is the fraction of the {counted} predicted as a {noun} that are correct. Recall is the "
            f"fraction of a {noun}'s {counted} that are found. F1 is their harmonic mean. 0 / 0 counts as 0.\nMacro is "
            f"the unweighted mean over the {noun}s that occur. Weighted is the mean weighted by the true {counted} of "
            f"each {noun}."
        )
    if len(names) > _OPEN:
        weakest = np.argsort(np.where(counts.gold > 0, rates.f1, np.inf), kind="stable")[:10]
        with page.section(f"{noun.capitalize()}s with the lowest F1"):
            page.table(None, [rows[i] for i in weakest if counts.gold[i]], columns)


def add_confusion_matrix(page: Page, noun: str, names: Sequence[str], matrix: np.ndarray, remark: str = ""):
    """Adds a confusion matrix: a table, or a plot if there are many labels.

    Args:
        page: to add to.
        noun: what the labels are called.
        names: names of the L labels.
        matrix: int [L, L], a row for each true label, a column for each predicted one.
        remark: to be read below it.
    """
    if len(names) <= _AS_TABLE:
        shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
        cells = [list(map(Shade, row.tolist(), share)) for row, share in zip(matrix, shares, strict=True)]
        page.matrix(names, cells, f"true {noun}", f"predicted {noun}")
        page.text(f"Percentages are relative to the row, that is, to all examples of the true {noun}." + remark)
    else:
        _as_figure(page, noun, names, matrix)
        if remark:
            page.text(remark.strip())


def add_confused_pairs(page: Page, noun: str, names: Sequence[str], matrix: np.ndarray):
    """Adds the most frequent confusions of more than two labels; arguments as of `add_confusion_matrix`."""
    wrong = matrix * ~np.eye(len(names), dtype=bool)
    pairs = sorted(zip(*np.nonzero(wrong), strict=True), key=lambda pair: -wrong[pair])[:_PAIRS]
    if len(names) <= 2 or not pairs:
        return
    totals = np.maximum(matrix.sum(1), 1)
    rows = [(names[a], names[b], int(wrong[a, b]), percent(wrong[a, b] / totals[a])) for a, b in pairs]
    with page.section("Most frequent confusions"):
        page.table(None, rows, (f"true {noun}", f"predicted {noun}", "count", "% of true label"))


def _as_figure(page, noun, names, matrix):
    kept, what = np.arange(len(names)), f"{len(names)} {noun}s"
    if len(names) > _AS_FIGURE:
        mixed = matrix.sum(0) + matrix.sum(1) - 2 * np.diag(matrix)
        kept = np.sort(np.argsort(-mixed, kind="stable")[:_AS_FIGURE])
        what = f"the {_AS_FIGURE} of {len(names)} {noun}s that are confused most often"
    page.text(f"A square's area is proportional to its percentage of the true {noun}; correct predictions are on the "
              f"diagonal. Shown are {what}.")  # fmt: skip
    drawn, named = matrix[np.ix_(kept, kept)], [names[i] for i in kept]
    totals = np.maximum(matrix.sum(1)[kept, None], 1)
    page.figure(None, lambda axes: draw_confusions(axes, named, drawn / totals), 4.6, label=f"Confusion matrix: {what}")


def add_bars(page: Page, noun: str, names: Sequence[str], values: np.ndarray, counts: np.ndarray, title: str):
    """Adds a bar of length `values`, 0 to 1, for each of the L most frequent labels; `counts` sort them."""
    order = np.argsort(-counts, kind="stable")[:_BARS]
    named, drawn = [names[i] for i in order], values[order]
    height = min(4.6, 0.9 + 0.22 * len(order))
    page.figure(None, lambda axes: draw_bars(axes, named, drawn, title), height, label=f"{title} by {noun}")
    if len(order) < len(names):
        page.text(f"The {len(order)} most frequent of {len(names):,} {noun}s.")


def add_calibration(page: Page, confidence: np.ndarray, right: np.ndarray, noun: str, remark: str = ""):
    """Adds a reliability diagram and the expected calibration error.

    Args:
        page: to add to.
        confidence: float [n], the probabilities of the predictions.
        right: bool [n].
        noun: what the n are: "predictions".
        remark: to be read below.
    """
    if not np.isfinite(confidence).all():
        return
    bins = reliability(confidence, right)
    gap = confidence.mean() - right.mean()
    tends = f"the model is {'overconfident' if gap > 0 else 'underconfident'}" if abs(gap) >= 0.005 else "they agree"
    with page.section("Calibration"):
        page.text(
            f"The expected calibration error (ECE) is {bins.error:.4f}: the mean difference between predicted "
            f"probability and accuracy, over 15 bins of equal width. The mean probability of the {noun} minus their "
            f"accuracy is {100 * gap:+.1f} percentage points: {tends}.{remark}"
        )
        page.figure(None, lambda axes: draw_calibration(axes, bins), label="Reliability diagram")
    with page.section("Calibration bins", is_open=False):
        page.table(None, _bin_rows(bins), ("probability", noun, "mean probability", "accuracy"))


def _bin_rows(bins: Bins):
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    return [
        (f"{low:.3f} to {high:.3f}", BarCell(int(count), count / bins.counts.max()), percent(mean), percent(right))
        for low, high, count, mean, right in zip(edges[:-1], edges[1:], *bins, strict=True)
        if count
    ]


def add_means_by_length(
    page: Page, examples: DisplayedExamples, shares: Shares, numbers: Mapping[str, np.ndarray] | None = None
):
    """Adds metrics by length of the example.

    Args:
        page: to add to.
        examples: n of them.
        shares: of them.
        numbers: {name: float [n]}, of any size.
    """
    groups = length_groups(examples.lengths)
    with page.section("Results by length"):
        add_group_means(page, examples.unit, groups, shares, numbers)


def add_group_means(
    page: Page,
    noun: str,
    groups: Mapping[str, np.ndarray],
    shares: Shares,
    numbers: Mapping[str, np.ndarray] | None = None,
    counted: str = "examples",
):
    """Adds a table of means over groups, {name: bool [n]}; the other arguments are those of `add_means_by_length`."""
    numbers = numbers or {}
    rows = []
    for name, chosen in groups.items():
        cells = [BarCell(percent(share), share) for share in (_share(values, chosen) for values in shares.values())]
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


def add_examples(
    page: Page, heading: str, report: ErrorReport, chosen: Iterable[int], columns: Mapping[str, Sequence], note=""
):
    """Adds a table of some examples with their texts: where each is, the columns, {name: n cells}, the texts."""
    examples, chosen = report.examples, list(chosen)
    with page.section(heading):
        if note:
            page.text(note)
        if not chosen:
            page.text("None.")
            return
        shown = {examples.position_name: examples.positions, **columns, **examples.texts}
        page.table(None, [tuple(values[i] for values in shown.values()) for i in chosen], tuple(shown))
