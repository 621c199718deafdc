"""One answer out of several to each example: classes, or the choices that a question has."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bert_tf.evaluation.error_reports import parts
from bert_tf.evaluation.error_reports.judged import Judged
from bert_tf.evaluation.error_reports.rates import Counts
from bert_tf.utils.report import Page

_LABELS = 500  # of a confusion matrix: of a hundred thousand labels it would not fit into memory
_MICRO = "of all answers together; since each example has one, it is the share of right answers, the accuracy."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices(Judged):
    """n examples of one label each.

    Attributes:
        gold: int [n], the right ones.
        probabilities: float [n, L].
        labels: the names of the L.
        meanings: of each example what its own labels stand for, where that differs from one to the next; None: they
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
    def badness(self):
        return np.where(self.given == self.gold, -1, 1) * self.confidence

    def columns(self):
        names = [[self.labels[i] for i in ids] for ids in (self.gold, self.given)]
        return dict(zip(("label", "prediction", "probability"), (*names, _rounded(self.confidence)), strict=True))

    def show(self, page: Page):
        right, count = self.given == self.gold, len(self.labels)
        counts = Counts.of_pairs(self.gold, self.given, count)
        parts.label_rates(page, self.label_noun, self.labels, counts, _MICRO)
        kept, matrix = _matrix(self.gold, self.given, count)
        remark = "" if len(kept) == count else f"Of {count:,} labels the {len(kept)} that are mixed up most."
        parts.confusion(page, self.label_noun, [self.labels[i] for i in kept], matrix, remark)
        parts.calibration(page, self.confidence, right, "answers")
        self._list_errors(page, right)
        if self.meanings:
            numbers = np.array([len(each) for each in self.meanings])
            with page.section("By number of choices"):
                parts.grouped(page, "choices", parts.length_groups(numbers), {"right": right})
        parts.by_length(page, self.examples, {"right": right, "mean probability": self.confidence})

    def _list_errors(self, page, right):
        chosen = self.worst(~right, parts.MOST)
        columns = {
            f"right {self.label_noun}": self._shown(self.gold),
            f"given {self.label_noun}": self._shown(self.given),
            "its probability": [f"{each:.3f}" for each in self.confidence],
        }
        note = f"{int((~right).sum()):,} of {len(right):,} answers are wrong; first those that the model was surest of."
        parts.listed(page, "Most confident errors", self, chosen, columns, note)

    def _shown(self, ids):
        if not self.meanings:
            return [self.labels[i] for i in ids]
        return [f"{self.labels[i]}: {own[i]}" for i, own in zip(ids, self.meanings, strict=True)]


class Options(Choices):
    """The same where each example has choices of its own, which `labels` only number."""

    label_noun = "choice"


def _matrix(gold, given, count):
    """Returns the labels that are mixed up most, int [k], all where they are few, and who is taken for whom, [k, k]."""
    wrong = gold != given
    mixed = sum(np.bincount(side[wrong], minlength=count) for side in (gold, given))
    kept = np.sort(np.argsort(-mixed, kind="stable")[:_LABELS])
    place = np.full(count, -1)
    place[kept] = np.arange(len(kept))
    rows, columns = place[gold], place[given]
    cells = (rows * len(kept) + columns)[(rows >= 0) & (columns >= 0)]
    return kept, np.bincount(cells, minlength=len(kept) ** 2).reshape(len(kept), len(kept))


def _rounded(values):
    return [f"{value:.6g}" for value in values]
