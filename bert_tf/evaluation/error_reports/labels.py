"""The error report of classification and multiple choice."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bert_tf.evaluation.error_reports import common
from bert_tf.evaluation.error_reports.common import Counts, ErrorReport
from bert_tf.utils.report import Page

# === Options ===
# One answer out of several to each example: classes, or the choices that a question has.


_LABELS = 500  # of a confusion matrix: of a hundred thousand labels it would not fit into memory
_MICRO = "of all answers together; since each example has one, it is the share of right answers, the accuracy."


@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleLabelReport(ErrorReport):
    """n examples of one label each.

    Attributes:
        gold: int [n], the right ones.
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

    @property
    def given(self) -> np.ndarray:
        """int [n], the answers."""
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
            f"the {self.label_noun} '{self.labels[given[0]]}', and always answering so has an accuracy of "
            f"{np.mean(self.gold == given):.3f}"
        )

    @property
    def severity(self):
        return np.where(self.given == self.gold, -1, 1) * self.confidence

    def columns(self):
        names = [[self.labels[i] for i in ids] for ids in (self.gold, self.given)]
        return dict(zip(("label", "prediction", "probability"), (*names, _rounded(self.confidence)), strict=True))

    def show(self, page: Page):
        right, count = self.given == self.gold, len(self.labels)
        counts = Counts.of_pairs(self.gold, self.given, count)
        common.add_label_rates(page, self.label_noun, self.labels, counts, _MICRO)
        kept, matrix = _matrix(self.gold, self.given, count)
        remark = "" if len(kept) == count else f"Of {count:,} labels the {len(kept)} that are mixed up most."
        common.add_confusions(page, self.label_noun, [self.labels[i] for i in kept], matrix, remark)
        common.add_calibration(page, self.confidence, right, "answers")
        self._list_errors(page, right)
        if self.meanings:
            numbers = np.array([len(each) for each in self.meanings])
            with page.section("By number of choices"):
                common.add_group_means(page, "choices", common.length_groups(numbers), {"right": right})
        common.add_means_by_length(page, self.examples, {"right": right, "mean probability": self.confidence})

    def _list_errors(self, page, right):
        chosen = self.worst(~right, common.MOST)
        columns = {
            f"right {self.label_noun}": self._shown(self.gold),
            f"given {self.label_noun}": self._shown(self.given),
            "its probability": [f"{each:.3f}" for each in self.confidence],
        }
        note = f"{int((~right).sum()):,} of {len(right):,} answers are wrong; first those that the model was surest of."
        common.add_examples(page, "Most confident errors", self, chosen, columns, note)

    def _shown(self, ids):
        if not self.meanings:
            return [self.labels[i] for i in ids]
        return [f"{self.labels[i]}: {own[i]}" for i, own in zip(ids, self.meanings, strict=True)]


class MultipleChoiceReport(SingleLabelReport):
    """Examples that have choices of their own, which `labels` only number."""

    label_noun = "choice"


def _matrix(gold, given, count):
    """Returns the labels that are mixed up most, int [k], all where they are few, and who is taken for whom, [k, k]."""
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


# === Marks ===
# Any number of labels to each example, each a yes or no of its own.


_MARKS_MICRO = "of all yeses together, whatever their label: f1, precision and recall among the scores."


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabelReport(ErrorReport):
    """n examples.

    Attributes:
        gold: bool [n, L].
        probabilities: float [n, L], of yes; an answer is yes over 0.5.
        labels: the names of the L.
        separator: between the labels of an example in a table.
    """

    gold: np.ndarray
    probabilities: np.ndarray
    labels: Sequence[str]
    separator: str = ","

    @property
    def given(self) -> np.ndarray:
        """bool [n, L], the answers."""
        return self.probabilities > 0.5

    @property
    def warning(self):
        if not len(self.gold) or (self.given != self.given[0]).any() or (self.gold == self.gold[0]).all():
            return ""
        labels = self.separator.join(self._names(self.given[0]))
        return self.learned_nothing(f"'{labels}'" if labels else "none of the labels")

    @property
    def confidence(self) -> np.ndarray:
        """float [n, L], how probable each answer is."""
        return np.maximum(self.probabilities, 1 - self.probabilities)

    @property
    def severity(self):
        """The surest wrong answer's probability; without one, less than 0: the least sure answer's."""
        wrong = self.given != self.gold
        surest = np.where(wrong, self.confidence, 0).max(-1)
        return np.where(wrong.any(-1), surest, -self.confidence.min(-1))

    def columns(self):
        names = [[self.separator.join(self._names(row)) for row in marks] for marks in (self.gold, self.given)]
        least = [f"{value:.6g}" for value in self.confidence.min(-1)]  # of all the example's answers
        return dict(zip(("label", "prediction", "probability"), (*names, least), strict=True))

    def show(self, page: Page):
        right = self.given == self.gold
        whole = right.all(-1)
        common.add_label_rates(page, "label", self.labels, Counts.of_marks(self.gold, self.given), _MARKS_MICRO)
        remark = f" An answer is a yes or no to one of the {len(self.labels)} labels of one example."
        common.add_calibration(page, self.confidence.ravel(), right.ravel(), "answers", remark)
        self._list_errors(page, whole)
        numbers = self.gold.sum(-1)
        shares = {"all labels right": whole.astype(float), "labels right": right.mean(-1)}
        with page.section("By number of labels"):
            common.add_group_means(page, "right labels", {f"{n}": numbers == n for n in np.unique(numbers)}, shares)
        common.add_means_by_length(page, self.examples, shares)

    def _list_errors(self, page, whole):
        missed, wrong = (
            [self._with_chances(*pair) for pair in zip(marks, self.probabilities, strict=True)]
            for marks in (self.gold & ~self.given, self.given & ~self.gold)
        )
        gold = [self.separator.join(self._names(row)) for row in self.gold]
        note = f"{int((~whole).sum()):,} of {len(whole):,} examples have a label too many or too few; first those of "
        note += "which the model was surest. After a label comes its probability."
        columns = {"right labels": gold, "missed": missed, "wrongly given": wrong}
        common.add_examples(page, "Most confident errors", self, self.worst(~whole, common.MOST), columns, note)

    def _names(self, row):
        return [self.labels[i] for i in np.flatnonzero(row)]

    def _with_chances(self, row, chances):
        return ", ".join(f"{self.labels[i]} {chances[i]:.3f}" for i in np.flatnonzero(row))
