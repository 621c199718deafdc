"""Base class of all tasks' error reports, and what it adds to the page of a run."""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_tf.evaluation.label_results import LabelResult
from bert_tf.utils.files import atomic_open, file_names
from bert_tf.utils.html_report import Page

# === Precision and recall ===
# Precision, recall and F1 of several classes, and their averages; what is 0 / 0 counts as 0.


class Fractions(NamedTuple):
    """Fractions, 0 to 1, or arrays [L] of them."""

    precision: float
    recall: float
    f1: float


class Counts(NamedTuple):
    """Counts of each of L classes among labels, predictions and correct predictions: int [L] each."""

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
        """Returns the macro and weighted averages; macro is over the classes that occur."""
        there, rates = (self.gold + self.given) > 0, self.rates()
        weights = self.gold / max(self.gold.sum(), 1)
        return {
            "macro": Fractions(*(float(rate[there].mean()) if there.any() else 0.0 for rate in rates)),
            "weighted": Fractions(*(float(rate @ weights) for rate in rates)),
        }


def _ratio(part, whole):
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


# === Reports ===
# Examples with labels and predictions: the interface of all error reports.


NORMAL_QUANTILE = 1.959964  # of the normal distribution, for intervals of 95 %


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
    """Examples, labels and predictions. Each subclass shows them on a page and writes them as a table.

    Attributes:
        examples: n of them.
        remarks: {metric: a note to show next to it, such as how it is averaged}.
        task_name: the task, as a page's heading.
        main_metrics: names of metrics; the first that was computed is the page's main one.
        overview_name: the heading of `show_overview`.
        has_several_labels: whether any number of the labels may be predicted for an example.
    """

    examples: Shown
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    task_name: ClassVar[str] = "Evaluation"
    main_metrics: ClassVar[tuple[str, ...]] = ()
    overview_name: ClassVar[str] = ""
    has_several_labels: ClassVar[bool] = False

    @property
    def warning(self) -> str:
        """A sentence that must be read before any metric is believed; "" if there is none."""
        return ""

    def learned_nothing(self, answers: str) -> str:
        """Returns the warning of a model that predicts the same for every example.

        Args:
            answers: the one prediction.
        """
        return (
            f"All {len(self.examples):,} predictions on {file_names(self.examples.path)} are {answers}: the "
            "model has learned nothing. Train longer, or try another learning rate."
        )

    def label_results(self) -> dict[str, LabelResult]:
        """Returns the result of each label of the model; {} if its outputs are not labels."""
        return {}

    @property
    @abc.abstractmethod
    def severity(self) -> np.ndarray:
        """float [n], highest for the most confident errors; among correct predictions, for the least confident."""

    @abc.abstractmethod
    def columns(self) -> dict[str, Sequence]:
        """Returns {name: n cells} of what is written in addition to id and texts."""

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Returns the 95 % confidence interval of one of `main_metrics`; None: unknown."""
        return None

    def is_of(self, metric: str, value: float) -> bool:
        """Returns whether a value of one of `main_metrics` is that of these predictions, and not of others."""
        return True

    def show_overview(self, page: Page):  # noqa: B027 - a report need not have one
        """Adds the figure or table for the first screen of a page."""

    @abc.abstractmethod
    def show(self, page: Page):
        """Adds the error analysis to a page, each part in a section of its own."""

    def in_order(self, order: str = "file") -> np.ndarray:
        """Returns int [n]: the examples as the file has them, or "errors": the most confident errors first."""
        return np.argsort(-self.severity, kind="stable") if order == "errors" else np.arange(len(self.examples))

    def worst(self, wrong: np.ndarray, most: int) -> np.ndarray:
        """Returns the `most` worst of those that are `wrong`, bool [n], the worst first."""
        return np.array([i for i in self.in_order("errors") if wrong[i]][:most], int)


def ratio_interval(part: np.ndarray, whole: np.ndarray | float = 1.0) -> tuple[float, float] | None:
    """Returns the 95 % confidence interval of sum(part) / sum(whole) over n drawn examples, by linearization.

    Args:
        part: float [n].
        whole: likewise; 1.0 for a mean.
    """
    part = np.asarray(part, float)
    whole = np.broadcast_to(whole, part.shape)
    n, total = len(part), whole.sum()
    if n < 2 or not total:
        return None
    ratio = part.sum() / total
    half = NORMAL_QUANTILE * np.sqrt(n / (n - 1) * ((part - ratio * whole) ** 2).sum()) / total
    return float(max(0.0, ratio - half)), float(min(1.0, ratio + half))


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


# === Page ===
# The parts of a run's page that show a model's predictions, whatever the task: fragments for `Page.keep`.


_ELSEWHERE = {"ece", "abstention_threshold"}  # metrics in sections of their own: calibration, selective prediction
_TITLES = {
    "exact": "exact match",
    "f1": "F1",
    "mae": "mean absolute error (MAE)",
    "map": "mean average precision (MAP)",
    "matthews": "Matthews correlation",
    "mrr": "mean reciprocal rank (MRR)",
    "ndcg": "nDCG",
    "pearson": "Pearson correlation",
    "rmse": "root mean squared error (RMSE)",
    "spearman": "Spearman correlation",
}


def render_headline(reports: Mapping[str, ErrorReport], scores: Mapping[str, float], step: int | None = None) -> str:
    """Returns a card with the main metric and its confidence interval, and all other metrics.

    Args:
        reports: {split, such as "dev" or "dev_mismatched": the predictions}.
        scores: {metric: value} over all of them; those of one split end in "_mismatched" like it.
        step: the training step of the evaluated checkpoint; None: unknown.
    """
    page, first = Page(""), next(iter(reports.values()), None)
    files = ", ".join(file_names(each.examples.path) for each in reports.values())
    rest = {name: value for name, value in sorted(scores.items()) if name.removeprefix("eval_") not in _ELSEWHERE}
    with page.card(f"{first.task_name} on {files}" if first else "Evaluation"):
        for each in reports.values():
            if each.warning:
                page.warning(f"Warning: {each.warning}")
        if main := _main_metric(first, scores):
            metric, value = main.removeprefix("eval_"), rest.pop(main)
            interval = first.interval(metric) if first.is_of(metric, value) else None
            remark = "95 % confidence interval {:.4g} to {:.4g}".format(*interval) if interval else ""
            page.metric(_title(main), f"{value:.4g}", remark)
        page.table(None, [(_title(name), f"{value:.4g}") for name, value in rest.items()])
        notes = {}
        for name in scores:
            notes.setdefault(_remark(name, reports), []).append(_title(name))
        lines = [f"{', '.join(names)}: {remark}." for remark, names in notes.items() if remark]
        page.text("\n".join(lines + ([checkpoint_sentence(step)] if step is not None else [])))
    return page.fragment()


def checkpoint_sentence(step: int) -> str:
    """Returns the sentence of a headline that states which checkpoint its metrics belong to."""
    return f"Checkpoint after step {step:,}."


def render_overview(reports: Mapping[str, ErrorReport], salt: str = "") -> str:
    """Returns a card for each file with its confusion matrix, or what the task has instead; as `render_headline`."""
    page = Page("", salt=f"{salt}overview ")
    for each in reports.values():
        if each.overview_name:
            suffix = f" on {file_names(each.examples.path)}" if len(reports) > 1 else ""
            with page.card(each.overview_name + suffix):
                each.show_overview(page)
    return page.fragment()


def render_errors(reports: Mapping[str, ErrorReport], salt: str = "") -> str:
    """Returns the error analysis of each file.

    Args:
        reports: as of `render_headline`.
        salt: as of `Page`, if a page has several such parts.
    """
    page = Page("", salt=f"{salt}errors ")
    for each in reports.values():
        page.heading(f"Error analysis: {file_names(each.examples.path)}")
        each.show(page)
    return page.fragment()


def _main_metric(report, scores):
    """Returns the name of a report's main metric among the scores, or None."""
    names = (f"{prefix}{name}" for name in (report.main_metrics if report else ()) for prefix in ("eval_", ""))
    return next((name for name in names if name in scores), None)


def _title(name):
    """Returns a metric's name as people write it; what else the name says, such as the split, stays."""
    return " ".join(_TITLES.get(word, word) for word in name.removeprefix("eval_").split("_"))


def _remark(name, reports):
    """Returns the note next to a metric, from the first report that has one of that name."""
    metric = name.removeprefix("eval_")
    for split, each in reports.items():
        suffix = split.partition("_")[2]
        if remark := each.remarks.get(metric.removesuffix(f"_{suffix}") if suffix else metric):
            return remark
    return ""
