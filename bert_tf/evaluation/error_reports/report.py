"""Base class of all tasks' error reports: examples with labels and predictions, and the table of them."""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_tf.evaluation.label_results import LabelResult
from bert_tf.utils.files import atomic_open, file_names
from bert_tf.utils.html_report import Page


class DisplayedExamples(NamedTuple):
    """n examples as a reader is to see them.

    Attributes:
        path: their file.
        ids: a name for each.
        positions: where in the file each is, such as its line.
        texts: {name: n texts}, one entry for each text that an example has.
        lengths: int [n], how long each is.
        unit: unit of the lengths.
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
        main_metrics: names of metrics; the first that was computed is the page's main one.
        overview_name: the heading of `show_overview`.
        has_several_labels: whether any number of the labels may be predicted for an example.
    """

    examples: DisplayedExamples
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    main_metrics: ClassVar[tuple[str, ...]] = ()
    overview_name: ClassVar[str] = ""
    has_several_labels: ClassVar[bool] = False

    @property
    def task_name(self) -> str:
        """The task, as a page's heading."""
        return "Evaluation"

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
        """Returns the 95% confidence interval of one of `main_metrics`; None if unknown."""
        return None

    def is_of(self, metric: str, value: float) -> bool:
        """Returns whether a value of one of `main_metrics` is that of these predictions, and not of others."""
        return True

    def show_overview(self, page: Page):  # noqa: B027 - a report need not have one
        """Adds the figure or table for the first screen of a page."""

    @abc.abstractmethod
    def show(self, page: Page):
        """Adds the error analysis to a page, each part in a section."""

    def in_order(self, order: str = "file") -> np.ndarray:
        """Returns the indices of the examples, int [n], in the file's order or with the most confident errors first.

        Args:
            order: "file" or "errors".
        """
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
