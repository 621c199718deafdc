"""The error report of any number of labels for each example; each label is a separate decision."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import Counts, ratio_interval
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.label_results import label_results
from bert_tf.evaluation.metrics import precision_at_recall
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import Page


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabelReport(ErrorReport):
    """n examples.

    Attributes:
        gold: bool [n, L].
        probabilities: float [n, L].
        labels: the names of the L.
        separator: between the labels of an example in a table.
        thresholds: probabilities above which the labels are predicted: float [L], or one for all.
    """

    gold: np.ndarray
    probabilities: np.ndarray
    labels: Sequence[str]
    separator: str = ","
    thresholds: np.ndarray | float = 0.5
    task_name = "Multi-label text classification"
    main_metrics = ("f1", "accuracy")
    overview_name = "F1 by label"
    has_several_labels = True

    @property
    def given(self) -> np.ndarray:
        """bool [n, L], the predicted labels."""
        return self.probabilities > self.thresholds

    @property
    def warning(self):
        if not len(self.gold) or (self.given != self.given[0]).any() or (self.gold == self.gold[0]).all():
            return ""
        labels = self.separator.join(self._names(self.given[0]))
        return self.learned_nothing(f"'{labels}'" if labels else "none of the labels")

    def label_results(self):
        return label_results(self.labels, *Counts.of_marks(self.gold, self.given))

    @property
    def confidence(self) -> np.ndarray:
        """float [n, L], the probability of each decision."""
        return np.where(self.given, self.probabilities, 1 - self.probabilities)

    @property
    def severity(self):
        """The highest probability among wrong decisions; if all are correct, minus the lowest one."""
        wrong = self.given != self.gold
        surest = np.where(wrong, self.confidence, 0).max(-1)
        return np.where(wrong.any(-1), surest, -self.confidence.min(-1))

    def columns(self):
        names = [[self.separator.join(self._names(row)) for row in marks] for marks in (self.gold, self.given)]
        least = [f"{value:.6g}" for value in self.confidence.min(-1)]  # of all the example's answers
        return dict(zip(("label", "prediction", "probability"), (*names, least), strict=True))

    def interval(self, metric):
        if metric == "accuracy":
            return ratio_interval((self.given == self.gold).mean(-1))
        return ratio_interval(2 * (self.gold & self.given).sum(-1), self.gold.sum(-1) + self.given.sum(-1))

    def show_overview(self, page: Page):
        f1 = Counts.of_marks(self.gold, self.given).rates().f1
        sections.add_bars(page, "label", self.labels, f1, self.gold.sum(0), "F1")

    def show(self, page: Page):
        right = self.given == self.gold
        whole = right.all(-1)
        self._list_errors(page, whole)
        sections.add_label_rates(page, "label", self.labels, Counts.of_marks(self.gold, self.given))
        self._show_thresholds(page)
        rows = [precision_at_recall(*pair) for pair in zip(self.gold.T, self.probabilities.T, strict=True)]
        rows = [(name, percent(rate), f"{cut:.4f}") for name, (rate, cut) in zip(self.labels, rows, strict=True)]
        with page.section("Precision at 90% recall by label"):
            page.table(None, rows, ("label", "precision", "threshold"))
        remark = f" Each example has {len(self.labels)} decisions, one for each label."
        sections.add_calibration(page, self.confidence.ravel(), right.ravel(), "decisions", remark)
        numbers = self.gold.sum(-1)
        shares = {"all labels correct": whole.astype(float), "labels correct": right.mean(-1)}
        with page.section("Results by number of labels"):
            sections.add_group_means(page, "true labels", {f"{n}": numbers == n for n in np.unique(numbers)}, shares)
        sections.add_means_by_length(page, self.examples, shares)

    def _show_thresholds(self, page):
        if not np.ndim(self.thresholds):
            return
        f1 = [Counts.of_marks(self.gold, self.probabilities > cut).rates().f1 for cut in (self.thresholds, 0.5)]
        rows = [(name, f"{cut:.4f}", *map(percent, each))
                for name, cut, *each in zip(self.labels, self.thresholds, *f1, strict=True)]  # fmt: skip
        with page.section("Thresholds by label"):
            page.table(None, rows, ("label", "threshold", "F1", "F1 at 0.5"))

    def _list_errors(self, page, whole):
        missed, wrong = (
            [self._with_chances(*pair) for pair in zip(marks, self.probabilities, strict=True)]
            for marks in (self.gold & ~self.given, self.given & ~self.gold)
        )
        gold = [self.separator.join(self._names(row)) for row in self.gold]
        note = f"{int((~whole).sum()):,} of {len(whole):,} examples have a missing or an extra label. The most "
        note += "confident errors come first, each label with its probability."
        columns = {"true labels": gold, "missing (false negatives)": missed, "extra (false positives)": wrong}
        sections.add_examples(page, "Most confident errors", self, self.worst(~whole, sections.MOST), columns, note)

    def _names(self, row):
        return [self.labels[i] for i in np.flatnonzero(row).tolist()]

    def _with_chances(self, row, chances):
        return ", ".join(f"{self.labels[i]} {chances[i]:.3f}" for i in np.flatnonzero(row).tolist())
