"""The error report of classification and multiple choice."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bert_tf.evaluation.abstention import interval
from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import Counts, ratio_interval
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.label_results import label_results
from bert_tf.evaluation.metrics import precision_at_recall
from bert_tf.utils.html_report import Page
from bert_tf.utils.names import percent

# === Single label ===
# One label for each example: a class, or one of the choices of a question.


_LABELS = 500  # of a confusion matrix: of a hundred thousand labels it would not fit into memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleLabelReport(ErrorReport):
    """n examples of one label each.

    Attributes:
        gold: int [n], the true labels.
        probabilities: float [n, L].
        labels: the names of the L.
        meanings: of each example what its own labels mean, where that differs from one to the next; None: they
            are the same for all.
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
    """Examples that have choices of their own, which `labels` only number."""

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


# === Several labels ===
# Any number of labels for each example; each label is a decision of its own.


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
        with page.section("Precision at 90 % recall by label"):
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
        return [self.labels[i] for i in np.flatnonzero(row)]

    def _with_chances(self, row, chances):
        return ", ".join(f"{self.labels[i]} {chances[i]:.3f}" for i in np.flatnonzero(row))
