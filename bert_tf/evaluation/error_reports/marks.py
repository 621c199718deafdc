"""Any number of labels to each example, each a yes or no of its own."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.error_reports import parts
from bert_tf.evaluation.error_reports.judged import Judged
from bert_tf.evaluation.error_reports.rates import Counts
from bert_tf.utils.report import Page

_MICRO = "of all yeses together, whatever their label: f1, precision and recall among the scores."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Marks(Judged):
    """n examples.

    Attributes:
        gold: bool [n, L].
        probabilities: float [n, L], of yes; an answer is yes over 0.5.
        labels: the names of the L.
        separator: what stands between the labels of an example in a table.
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
    def badness(self):
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
        parts.label_rates(page, "label", self.labels, Counts.of_marks(self.gold, self.given), _MICRO)
        remark = f" An answer is a yes or no to one of the {len(self.labels)} labels of one example."
        parts.calibration(page, self.confidence.ravel(), right.ravel(), "answers", remark)
        self._list_errors(page, whole)
        numbers = self.gold.sum(-1)
        shares = {"all labels right": whole.astype(float), "labels right": right.mean(-1)}
        with page.section("By number of labels"):
            parts.grouped(page, "right labels", {f"{n}": numbers == n for n in np.unique(numbers)}, shares)
        parts.by_length(page, self.examples, shares)

    def _list_errors(self, page, whole):
        missed, wrong = (
            [self._with_chances(*pair) for pair in zip(marks, self.probabilities, strict=True)]
            for marks in (self.gold & ~self.given, self.given & ~self.gold)
        )
        gold = [self.separator.join(self._names(row)) for row in self.gold]
        note = f"{int((~whole).sum()):,} of {len(whole):,} examples have a label too many or too few; first those of "
        note += "which the model was surest. Beside a label stands its probability."
        columns = {"right labels": gold, "missed": missed, "wrongly given": wrong}
        parts.listed(page, "Most confident errors", self, self.worst(~whole, parts.MOST), columns, note)

    def _names(self, row):
        return [self.labels[i] for i in np.flatnonzero(row)]

    def _with_chances(self, row, chances):
        return ", ".join(f"{self.labels[i]} {chances[i]:.3f}" for i in np.flatnonzero(row))
