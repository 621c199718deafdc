"""The error report of question answering."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import ratio_interval
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.utils.html_report import Page

_WORDS = re.compile(r"\b(how many|how much|how|who|whom|whose|what|which|when|where|why)\b", re.IGNORECASE)
_OTHER, _MOST = "other", 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionReport(ErrorReport):
    """n questions.

    Attributes:
        gold: the true answers of each; none if the text has no answer.
        given: the predicted answers; "" for none.
        confidence: float [n], their probabilities.
        exact, f1: float [n], the official scores of each, 0 to 1.
        threshold: no answer is predicted if its score exceeds the best answer's by more; if None, there is always one.
    """

    gold: Sequence[Sequence[str]]
    given: Sequence[str]
    confidence: np.ndarray
    exact: np.ndarray
    f1: np.ndarray
    threshold: float | None = None
    task_name = "Extractive question answering"
    main_metrics = ("f1", "exact")
    overview_name = "Exact match and F1 by question word"

    @property
    def warning(self):
        given, gold = set(self.given), {tuple(texts) for texts in self.gold}
        if len(given) != 1 or len(gold) < 2:
            return ""
        answer = given.pop()
        return self.learned_nothing(f"'{answer}'" if answer else "empty (no answer)")

    @property
    def severity(self):
        wrong = self.exact < 1
        return np.where(wrong, self.confidence * (1 - self.f1), -self.confidence)

    def columns(self):
        answers = [next(iter(texts), "") for texts in self.gold]
        numbers = [[f"{value:.6g}" for value in each] for each in (self.confidence, self.exact, self.f1)]
        names = ("answer", "prediction", "probability", "exact", "f1")
        return dict(zip(names, (answers, self.given, *numbers), strict=True))

    def interval(self, metric):
        found = ratio_interval(self._shares(metric))
        return found and (100 * found[0], 100 * found[1])

    def is_of(self, metric, value):
        """A value is of other predictions if it was computed with another threshold: before the best one was known."""
        return math.isclose(100 * self._shares(metric).mean(), value, rel_tol=1e-6)

    def show_overview(self, page: Page):
        words, kind = question_words(self.examples.texts["question"])
        groups = {name: np.array([word == name for word in words]) for name, _ in Counter(words).most_common()}
        scores = {"exact match": self.exact, "F1": self.f1}
        sections.add_group_means(page, kind, groups, scores, counted="questions")

    def show(self, page: Page):
        has, scores = np.array([bool(texts) for texts in self.gold]), {"exact match": self.exact, "F1": self.f1}
        self._list_errors(page)
        if not has.all():
            self._show_answerable(page, has, scores)
        among = " A probability is relative to the best candidate answers of the question."
        sections.add_calibration(page, self.confidence, self.exact == 1, "answers", among)
        if has.any():
            shortest = np.array([min((len(text.split()) for text in texts), default=0) for texts in self.gold])
            groups = {name: _spread(has, chosen) for name, chosen in sections.length_groups(shortest[has]).items()}
            with page.section("Results by length of the true answer"):
                sections.add_group_means(page, "words", groups, scores, counted="questions")
        sections.add_means_by_length(page, self.examples, scores)
        page.text("Exact match is the fraction of questions whose predicted answer equals a true one. F1 is the mean "
                  "overlap in words with the closest true answer.")  # fmt: skip

    def _shares(self, metric):
        return self.f1 if metric == "f1" else self.exact

    def _show_answerable(self, page, has, scores):
        groups = {"answerable": has, "unanswerable": ~has}
        none = np.array([not text for text in self.given], float)
        with page.section("Answerable and unanswerable questions"):
            groups = {name: chosen for name, chosen in groups.items() if chosen.any()}
            sections.add_group_means(
                page, "question", groups, {**scores, "no answer predicted": none}, counted="questions"
            )
            if self.threshold is not None:
                page.text(
                    "No answer is predicted if its score exceeds the best answer's by more than "
                    f"{self.threshold:.4g}, a threshold that is stored with the model. The official metrics may be for "
                    "another threshold."
                )

    def _list_errors(self, page):
        wrong = self.exact < 1
        columns = {
            "question": self.examples.texts["question"],
            "true answer": [" / ".join(dict.fromkeys(texts)) or "(none)" for texts in self.gold],
            "predicted answer": [text or "(none)" for text in self.given],
            "probability": [f"{value:.3f}" for value in self.confidence],
            "F1": [f"{value:.2f}" for value in self.f1],
        }
        note = f"{int(wrong.sum()):,} of {len(wrong):,} answers are not an exact match. Confident answers with little "
        note += "overlap with a true one come first."
        sections.add_examples(page, "Most confident errors", self, self.worst(wrong, sections.MOST), columns, note)


def question_words(questions: Sequence[str]) -> tuple[list[str], str]:
    """Returns each question's group, and what the groups are called.

    A group is the first English question word. If most questions have none, as in other languages, it is their first
    word, if that is one of the most frequent.
    """
    found = [match[1].lower() if (match := _WORDS.search(question)) else _OTHER for question in questions]
    if found.count(_OTHER) <= len(found) / 2:
        return found, "question word"
    firsts = [(question.split() or [""])[0].lower() for question in questions]
    common = {word for word, _ in Counter(firsts).most_common(_MOST)}
    return [word if word in common else _OTHER for word in firsts], "first word"


def _spread(has, chosen):
    """Returns a choice among those that `has` marks as a choice among all, bool [n]."""
    spread = np.zeros(len(has), bool)
    spread[has] = chosen
    return spread
