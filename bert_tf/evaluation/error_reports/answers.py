"""The error report of question answering."""

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.error_reports import common
from bert_tf.evaluation.error_reports.common import ErrorReport
from bert_tf.utils.html_report import Page

_WORDS = re.compile(r"\b(how many|how much|how|who|whom|whose|what|which|when|where|why)\b", re.IGNORECASE)
_OTHER, _MOST = "other", 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionReport(ErrorReport):
    """n questions.

    Attributes:
        gold: of each its right answers; none where the text has none.
        given: the answers; "" for none.
        confidence: float [n], their probabilities.
        exact, f1: float [n], the official scores of each, 0 to 1.
        threshold: none is given where its score is over the best answer's by more; None: there is always an answer.
    """

    gold: Sequence[Sequence[str]]
    given: Sequence[str]
    confidence: np.ndarray
    exact: np.ndarray
    f1: np.ndarray
    threshold: float | None = None

    @property
    def warning(self):
        given, gold = set(self.given), {tuple(texts) for texts in self.gold}
        if len(given) != 1 or len(gold) < 2:
            return ""
        answer = given.pop()
        return self.learned_nothing(f"'{answer}'" if answer else "that there is none")

    @property
    def severity(self):
        wrong = self.exact < 1
        return np.where(wrong, self.confidence * (1 - self.f1), -self.confidence)

    def columns(self):
        answers = [next(iter(texts), "") for texts in self.gold]
        numbers = [[f"{value:.6g}" for value in each] for each in (self.confidence, self.exact, self.f1)]
        names = ("answer", "prediction", "probability", "exact", "f1")
        return dict(zip(names, (answers, self.given, *numbers), strict=True))

    def show(self, page: Page):
        has, scores = np.array([bool(texts) for texts in self.gold]), {"exact": self.exact, "F1": self.f1}
        if not has.all():
            self._show_answerable(page, has, scores)
        words, kind = question_words(self.examples.texts["question"])
        groups = {name: np.array([word == name for word in words]) for name, _ in Counter(words).most_common()}
        with page.section("By question word"):
            common.add_group_means(page, kind, groups, scores, counted="questions")
            page.text("exact: the share answered word for word as people did. F1: the mean over the questions of how "
                      "far the words agree with the answer of people that suits best.")  # fmt: skip
        if has.any():
            shortest = np.array([min((len(text.split()) for text in texts), default=0) for texts in self.gold])
            groups = {name: _spread(has, chosen) for name, chosen in common.length_groups(shortest[has]).items()}
            with page.section("By length of the right answer"):
                common.add_group_means(page, "words", groups, scores, counted="questions")
        common.add_means_by_length(page, self.examples, scores)
        among = " A probability is that among the best answers of the question."
        common.add_calibration(page, self.confidence, self.exact == 1, "answers", among)
        self._list_errors(page)

    def _show_answerable(self, page, has, scores):
        groups = {"has an answer": has, "has none": ~has}
        none = np.array([not text for text in self.given], float)
        with page.section("Answerable or not"):
            groups = {name: chosen for name, chosen in groups.items() if chosen.any()}
            common.add_group_means(
                page, "the question", groups, {**scores, "answered with none": none}, counted="questions"
            )
            if self.threshold is not None:
                page.text(
                    f"None is given where its score is over the best answer's by more than {self.threshold:.4g}, which "
                    "is kept with the model. The official scores above may be of another threshold."
                )

    def _list_errors(self, page):
        wrong = self.exact < 1
        columns = {
            "question": self.examples.texts["question"],
            "right": [" / ".join(dict.fromkeys(texts)) or "(none)" for texts in self.gold],
            "given": [text or "(none)" for text in self.given],
            "its probability": [f"{value:.3f}" for value in self.confidence],
            "F1": [f"{value:.2f}" for value in self.f1],
        }
        note = f"{int(wrong.sum()):,} of {len(wrong):,} answers are not exact; first those that share least with a "
        note += "right one and of which the model was surest."
        common.add_examples(page, "Worst answers", self, self.worst(wrong, common.MOST), columns, note)


def question_words(questions: Sequence[str]) -> tuple[list[str], str]:
    """Returns what each question begins to ask with, and what that is called.

    That is the first question word of English; where most questions have none, as in other languages, their first word
    if it is one of the commonest.
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
