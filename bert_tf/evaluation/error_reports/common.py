"""Base class and page of all tasks' error reports: rates, figures, sections."""

import abc
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.evaluation.calibration import Bins, reliability
from bert_tf.utils.files import atomic_open
from bert_tf.utils.names import percent
from bert_tf.utils.report import ACCENT, FILL, INK, PALE, BarCell, Page, Shade

# === Precision and recall ===
# Precision, recall and F1 of several classes, and their averages; what is 0 / 0 counts as 0.


class Fractions(NamedTuple):
    """Fractions, 0 to 1, or arrays [L] of them."""

    precision: float
    recall: float
    f1: float


class Counts(NamedTuple):
    """Counts of each of L classes among labels, predictions and right predictions: int [L] each."""

    gold: np.ndarray
    given: np.ndarray
    right: np.ndarray

    @classmethod
    def of_pairs(cls, gold: np.ndarray, given: np.ndarray, classes: int) -> "Counts":
        """Counts n examples of one class each; int [n] twice."""
        return cls(*(np.bincount(each, minlength=classes) for each in (gold, given, gold[gold == given])))

    @classmethod
    def of_marks(cls, gold: np.ndarray, given: np.ndarray) -> "Counts":
        """Counts n examples of any number of classes; bool [n, L] twice."""
        return cls(gold.sum(0), given.sum(0), (gold & given).sum(0))

    def rates(self) -> Fractions:
        """Returns those of each class, float [L]."""
        gold, given, right = self
        return Fractions(_ratio(right, given), _ratio(right, gold), _ratio(2 * right, gold + given))

    def averages(self) -> dict[str, Fractions]:
        """Returns the means over the classes that occur, plain and by how often each is right, and all as one class."""
        there, rates = (self.gold + self.given) > 0, self.rates()
        weights = self.gold / max(self.gold.sum(), 1)
        together = Counts(*(part.sum(keepdims=True) for part in self)).rates()
        return {
            "macro": Fractions(*(float(rate[there].mean()) if there.any() else 0.0 for rate in rates)),
            "weighted": Fractions(*(float(rate @ weights) for rate in rates)),
            "micro": Fractions(*(float(rate[0]) for rate in together)),
        }


def _ratio(part, whole):
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


# === Reports ===
# Examples with labels and predictions: the interface of all error reports.


class Shown(NamedTuple):
    """n examples as a reader is to see them.

    Attributes:
        path: their file.
        ids: a name for each.
        positions: where in the file each is, such as its line.
        texts: {name: n texts}, one entry for each text that an example has.
        lengths: int [n], how long each is.
        unit: of the lengths.
        position_name: what a position is called.
    """

    path: str
    ids: Sequence[str]
    positions: Sequence[Any]
    texts: Mapping[str, Sequence[str]]
    lengths: np.ndarray
    unit: str = "tokens"
    position_name: str = "line"

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ErrorReport(abc.ABC):
    """Examples, right answers and a model's answers. A kind of them says how it is shown and written as a table.

    Attributes:
        examples: n of them.
        remarks: {metric: a note to show next to it, such as how it is averaged}.
    """

    examples: Shown
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def warning(self) -> str:
        """A sentence that must be read before any score is believed; "": nothing."""
        return ""

    def learned_nothing(self, answers: str) -> str:
        """Returns the warning of a model that gives every example the same answer.

        Args:
            answers: what all of them are.
        """
        return (
            f"All {len(self.examples):,} answers on {os.path.basename(self.examples.path)} are {answers}: the model "
            "has learned nothing; train longer, or try another learning rate."
        )

    @property
    @abc.abstractmethod
    def severity(self) -> np.ndarray:
        """float [n], greatest where the model was wrong and most sure of it; of right answers where it was least."""

    @abc.abstractmethod
    def columns(self) -> dict[str, Sequence]:
        """Returns {name: n cells} of what is written in addition to id and texts."""

    @abc.abstractmethod
    def show(self, page: Page):
        """Adds what is to be seen to a page, each thing in a section of its own."""

    def in_order(self, order: str = "file") -> np.ndarray:
        """Returns int [n]: the examples as the file has them, or "errors": the most confident errors first."""
        return np.argsort(-self.severity, kind="stable") if order == "errors" else np.arange(len(self.examples))

    def worst(self, wrong: np.ndarray, most: int) -> np.ndarray:
        """Returns the `most` worst of those that are `wrong`, bool [n], the worst first."""
        return np.array([i for i in self.in_order("errors") if wrong[i]][:most], int)


def write_table(path: str | os.PathLike, report: ErrorReport, order: str = "file"):
    """Writes a line for each example, tab separated: `id`, the answers' own columns, and the texts.

    White space that would end a column or line becomes a space.

    Args:
        path: the file.
        report: what to write.
        order: one of `names.PREDICTION_ORDERS`.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    columns = {"id": report.examples.ids, **report.columns(), **report.examples.texts}
    with atomic_open(path) as file:
        file.write("\t".join(columns) + "\n")
        for i in report.in_order(order):
            file.write("\t".join(_cell(values[i]) for values in columns.values()) + "\n")


def _cell(value):
    return " ".join(str(value).replace("\t", " ").splitlines())


# === Figures ===
# The plots, each drawn on matplotlib's Axes; what colours say, shapes or positions say too.


_DOTS = 2000  # of a scatter at most: more would only hide each other
_LETTERS = 18  # of a name next to a plot


def draw_calibration(axes, bins: Bins):
    """The share of right answers in each bin as a bar, its mean probability as a dot, and the diagonal."""
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


def draw_confusions(axes, names, shares):
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


def draw_scatter(axes, gold, given, gold_name, given_name, is_same_scale=True):
    """Draws predictions against labels; on one scale with the line on which they would be equal."""
    step = max(1, -(-len(gold) // _DOTS))
    axes.scatter(gold[::step], given[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    if is_same_scale:
        ends = [min(gold.min(), given.min()), max(gold.max(), given.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(gold_name)
    axes.set_ylabel(given_name)


def draw_residuals(axes, lengths, errors, unit):
    """By how much each answer is off, by the length of its text."""
    step = max(1, -(-len(errors) // _DOTS))
    axes.scatter(lengths[::step], errors[::step], s=6, color=FILL, alpha=0.6, linewidths=0)
    axes.axhline(0, color=INK, linewidth=1, linestyle="--")
    axes.set_xlabel(unit)
    axes.set_ylabel("given less right")


# === Parts ===
# Sections that several kinds of answers share: rates of each label, who is taken for whom, calibration, lengths.


MOST = 25  # errors that are listed

_RATES = ("precision", "recall", "F1")
_AS_TABLE = 12  # labels of which a confusion matrix is a table of numbers
_AS_FIGURE = 60  # of which it is a drawing; of more the most mixed up are drawn
_PAIRS = 15  # confusions that are listed
_OPEN = 20  # labels whose table is open at first
_BINS = 5  # of lengths


class Ratio(NamedTuple):
    """A share of n examples together: the sum of `part` over the sum of `whole`, [n] each; 0 / 0 counts as 0."""

    part: np.ndarray
    whole: np.ndarray


Shares = Mapping[str, np.ndarray | Ratio]  # name -> float [n], 0 to 1, of which the mean is shown; or a ratio


def add_label_rates(page: Page, noun: str, names: Sequence[str], counts: Counts, micro: str, counted: str = "examples"):
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
        (name, BarCell(int(gold), gold / most), int(given), int(right), *map(percent, each))
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


def add_confusions(page: Page, noun: str, names: Sequence[str], matrix: np.ndarray, remark: str = ""):
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
        None, lambda axes: draw_confusions(axes, named, drawn / totals), 4.6, label=f"Which is taken for which: {what}"
    )


def add_calibration(page: Page, confidence: np.ndarray, right: np.ndarray, noun: str, remark: str = ""):
    """Adds how well calibrated the probabilities are.

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
        page.figure(None, lambda axes: draw_calibration(axes, bins), label="Probability and share of right answers")
    with page.section("Calibration, as numbers", is_open=False):
        page.table(None, _bin_rows(bins), ("probability", noun, "mean probability", "right"))


def _bin_rows(bins: Bins):
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    return [
        (f"{low:.3f} to {high:.3f}", BarCell(int(count), count / bins.counts.max()), percent(mean), percent(right))
        for low, high, count, mean, right in zip(edges[:-1], edges[1:], *bins, strict=True)
        if count
    ]


def add_means_by_length(page: Page, examples: Shown, shares: Shares, numbers: Mapping[str, np.ndarray] | None = None):
    """Adds means over examples of about one length.

    Args:
        page: to add to.
        examples: n of them.
        shares: of them.
        numbers: {name: float [n]}, of any size.
    """
    groups = length_groups(examples.lengths)
    with page.section("By length"):
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


# === Page ===
# The part of a report that shows a model's predictions, whatever the task.


def render_scored(
    reports: Mapping[str, ErrorReport], scores: Mapping[str, float], step: int | None = None, salt: str = ""
) -> str:
    """Returns the fragment for `Page.keep`: the scores, and for each file of examples what was answered.

    Args:
        reports: {split, such as "dev" or "dev_mismatched": the answers}.
        scores: {metric: score} over all of them; those of one split end in "_mismatched" like it.
        step: after which training step; None: that is not known.
        salt: as of `Page`, where several such parts are on a page.
    """
    page = Page("", salt=f"{salt}scored ")
    page.heading(f"Scores on {', '.join(os.path.basename(each.examples.path) for each in reports.values())}"
                 if reports else "Scores")  # fmt: skip
    for each in reports.values():
        if each.warning:
            page.text(f"Warning: {each.warning}")
    if step is not None:
        page.text(f"Of the model after step {step:,}.")
    page.table(None, [(name, f"{value:.5g}", _remark(name, reports)) for name, value in sorted(scores.items())])
    for each in reports.values():
        page.heading(f"What it does on {os.path.basename(each.examples.path)}")
        page.text(f"{len(each.examples):,} examples of {each.examples.path}.")
        each.show(page)
    return page.fragment()


def _remark(name, reports):
    """Returns the note next to a score: what any of the files says of a metric of that name."""
    metric = name.removeprefix("eval_")
    for split, each in reports.items():
        suffix = split.partition("_")[2]
        if remark := each.remarks.get(metric.removesuffix(f"_{suffix}") if suffix else metric):
            return remark
    return ""
