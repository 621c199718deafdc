"""The error report of one label for each example: a class, or one of the choices of a question."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bert_tf.evaluation.abstention import interval
from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import Counts
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.label_results import label_results
from bert_tf.utils.html_report import Page

_LABELS = 500  # of a confusion matrix: of a hundred thousand labels it would not fit into memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleLabelReport(ErrorReport):
    """n examples of one label each.

    Attributes:
        gold: int [n], the true labels.
        probabilities: float [n, L].
        labels: the names of the L.
        meanings: of each example what its own labels mean, where that differs from one to the next; if None, they are
            the same for all.
        label_noun: what a label is called.
    """

    gold: np.ndarray
    probabilities: np.ndarray
    labels: Sequence[str]
    meanings: Sequence[Sequence[str]] | None = None
    label_noun: ClassVar[str] = "label"
    task_name = "Text classification"
    main_metrics = ("accuracy",)
    overview_name = "Confusion matrix"

    @property
    def given(self) -> np.ndarray:
        """int [n], the predicted labels."""
        return self.probabilities.argmax(-1)

    @property
    def confidence(self) -> np.ndarray:
        """float [n], their probabilities."""
        return self.probabilities.max(-1)

    @property
    def warning(self):
        given = np.unique(self.given)
        if len(given) != 1 or len(np.unique(self.gold)) < 2:
            return ""
        return self.learned_nothing(
            f"the {self.label_noun} '{self.labels[given[0]]}', and always predicting it has an accuracy of "
            f"{np.mean(self.gold == given):.3f}"
        )

    def label_results(self):
        return label_results(self.labels, *Counts.of_pairs(self.gold, self.given, len(self.labels)))

    @property
    def severity(self):
        return np.where(self.given == self.gold, -1, 1) * self.confidence

    def columns(self):
        names = [[self.labels[i] for i in ids] for ids in (self.gold, self.given)]
        return dict(zip(("label", "prediction", "probability"), (*names, _rounded(self.confidence)), strict=True))

    def interval(self, metric):
        return interval(float(np.mean(self.given == self.gold)), len(self.gold))

    def show_overview(self, page: Page):
        kept, matrix = _matrix(self.gold, self.given, len(self.labels))
        few = len(kept) < len(self.labels)
        remark = f" Of {len(self.labels):,} labels, the {len(kept)} that are confused most often." if few else ""
        sections.add_confusion_matrix(page, self.label_noun, [self.labels[i] for i in kept], matrix, remark)

    def show(self, page: Page):
        right = self.given == self.gold
        self._list_errors(page, right)
        counts = Counts.of_pairs(self.gold, self.given, len(self.labels))
        sections.add_label_rates(page, self.label_noun, self.labels, counts)
        kept, matrix = _matrix(self.gold, self.given, len(self.labels))
        sections.add_confused_pairs(page, self.label_noun, [self.labels[i] for i in kept], matrix)
        sections.add_calibration(page, self.confidence, right, "predictions")
        if self.meanings:
            numbers = np.array([len(each) for each in self.meanings])
            with page.section("Results by number of choices"):
                sections.add_group_means(page, "choices", sections.length_groups(numbers), {"accuracy": right})
        sections.add_means_by_length(page, self.examples, {"accuracy": right, "mean probability": self.confidence})

    def _list_errors(self, page, right):
        chosen = self.worst(~right, sections.MOST)
        columns = {
            f"true {self.label_noun}": self._shown(self.gold),
            f"predicted {self.label_noun}": self._shown(self.given),
            "probability": [f"{each:.3f}" for each in self.confidence],
        }
        note = f"{int((~right).sum()):,} of {len(right):,} predictions are wrong. The most confident come first."
        sections.add_examples(page, "Most confident errors", self, chosen, columns, note)

    def _shown(self, ids):
        if not self.meanings:
            return [self.labels[i] for i in ids]
        return [f"{self.labels[i]}: {own[i]}" for i, own in zip(ids, self.meanings, strict=True)]


class MultipleChoiceReport(SingleLabelReport):
    """Examples with individual choices, which `labels` only number."""

    label_noun = "choice"
    task_name = "Multiple choice"

    def label_results(self):
        return {}


def _matrix(gold, given, count):
    """Returns the labels that are confused most often, int [k], all if they are few, and their confusion matrix."""
    wrong = gold != given
    mixed = sum(np.bincount(side[wrong], minlength=count) for side in (gold, given))
    kept = np.sort(np.argsort(-mixed, kind="stable")[:_LABELS])
    index = np.full(count, -1)
    index[kept] = np.arange(len(kept))
    rows, columns = index[gold], index[given]
    cells = (rows * len(kept) + columns)[(rows >= 0) & (columns >= 0)]
    return kept, np.bincount(cells, minlength=len(kept) ** 2).reshape(len(kept), len(kept))


def _rounded(values):
    return [f"{value:.6g}" for value in values]
