"""Answers merged from windows, and Google's files of them."""

import json
import math

import numpy as np
import pytest

from bert_tf.data.ragged import Ragged
from bert_tf.tasks.question_answering.data import SquadExamples
from bert_tf.tasks.question_answering.encoding import QuestionOrigin
from bert_tf.tasks.question_answering.outputs import AnswerSpan, QuestionAnswers, merge_windows, write_squad_predictions

CONTEXT = "Zo\u00eb met \U0001f600 Ada, Ada!"  # Zoë 0-3, met 4-7, the emoji 8-9, Ada 10-13 and 15-18
WORDS = [(0, 3), (4, 7), (8, 9), (10, 13), (13, 14), (15, 18), (18, 19)]
NONE = (-math.inf, 0, 0)


def origin_of(*windows):
    """Returns rows `[CLS] q [SEP] words [SEP]` of (question, first word, end): word i is in column i - first + 3."""
    spans = [[(-1, -1)] * 3 + WORDS[first:end] + [(-1, -1)] for _, first, end in windows]
    starts, ends = (np.array([span[side] for row in spans for span in row], np.int32) for side in (0, 1))
    lengths = [len(row) for row in spans]
    example = np.array([question for question, _, _ in windows])
    return QuestionOrigin(example, Ragged.of_lengths(starts, lengths), Ragged.of_lengths(ends, lengths))


def contexts_alone(contexts):
    names, none = [f"q{i}" for i in range(len(contexts))], [[] for _ in contexts]
    return SquadExamples(names, ["?"] * len(names), contexts, none, [False] * len(names), "f", [(0, 0, 0)] * len(names))


def collected(spans, nulls):
    """Returns what a task keeps: of each row [(score, start, end)], and its null score."""
    score, start, end = (np.array([[span[i] for span in row] for row in spans]) for i in range(3))
    half = np.where(np.isfinite(score), score, 0).astype(np.float32) / 2
    null = np.array(nulls, np.float32)
    return {
        **{"score": score.astype(np.float32), "start": start.astype(np.int32), "end": end.astype(np.int32)},
        **{"start_logit": half - 1, "end_logit": half + 1},
        **{"null_start_logit": null - 0.5, "null_end_logit": np.full_like(null, 0.5)},
    }


ORIGIN = origin_of((0, 0, 4), (0, 2, 7), (1, 0, 7))
KEPT = collected(
    [[(4.0, 3, 3), (1.0, 4, 6)], [(6.0, 4, 4), (5.0, 6, 6)], [(2.0, 5, 6), NONE]],
    [1.0, -1.0, 9.0],
)  # of question 0: Zoë 4, "met ... Ada" 1, Ada 6, Ada 5; of question 1: the emoji and Ada 2


def test_the_windows_of_a_question_together():
    first, second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 20)
    assert [(a.text, a.start, a.end, a.score) for a in first.n_best] == [
        ("Ada", 10, 13, 6.0), ("Zo\u00eb", 0, 3, 4.0), ("met \U0001f600 Ada", 4, 13, 1.0)]  # fmt: skip
    assert [(a.text, a.start_logit, a.end_logit) for a in second.n_best] == [("\U0001f600 Ada", 0.0, 2.0)]
    assert all(CONTEXT[a.start : a.end] == a.text for a in first.n_best + second.n_best)
    assert (first.null_score, second.null_score) == (-1.0, 9.0)  # the least of the windows
    assert (first.null_odds, second.null_odds) == (-7.0, 7.0)


def test_probabilities_are_a_softmax_over_the_n_best():
    best = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 2)[0].n_best
    assert [a.probability for a in best] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))])


def test_no_answer_takes_part_in_its_place_or_behind():
    first, second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 3, with_null=True)
    assert [a.text for a in first.n_best] == ["Ada", "Zo\u00eb", "met \U0001f600 Ada", ""]  # one more than n_best_size
    assert [a.text for a in second.n_best] == ["", "\U0001f600 Ada"]
    assert (second.n_best[0].start_logit, second.n_best[0].end_logit) == (8.5, 0.5)
    assert second.n_best[1].probability == pytest.approx(1 / (1 + math.exp(7)))
    assert (second.best.text, second.null_odds) == ("\U0001f600 Ada", 7.0)
    only = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 1, with_null=True)[1]
    assert [a.text for a in only.n_best] == ["", "\U0001f600 Ada"]  # a span is left, however few are asked for


def test_no_answer_by_the_threshold():
    second = merge_windows(ORIGIN, contexts_alone([CONTEXT] * 2), KEPT, 20, with_null=True)[1]
    assert [second.text(t) for t in (None, 7.0, 6.9)] == ["\U0001f600 Ada", "\U0001f600 Ada", ""]


@pytest.mark.parametrize("with_null", [False, True])
def test_a_context_without_pieces_has_the_empty_answer(with_null):
    kept = collected([[NONE, NONE]], [1.5])
    (answers,) = merge_windows(origin_of((0, 0, 0)), contexts_alone([""]), kept, 20, with_null)
    assert [(a.text, a.start, a.end, a.probability) for a in answers.n_best] == [("", 0, 0, 1.0)]
    assert answers.text(None) == answers.text(9.0) == "" and answers.null_odds == 1.5


def test_odds_are_what_float32_has_as_in_an_exported_model():
    answers = QuestionAnswers([AnswerSpan("b", 0, 1, float(np.float32(0.1)), 0.1, 0.0)], float(np.float32(7.3)))
    assert answers.null_odds == float(np.float32(7.3) - np.float32(0.1)) != answers.null_score - answers.best.score


def test_files_are_google_s(tmp_path):
    said = [QuestionAnswers([AnswerSpan("\u00eb", 1, 2, 3.0, 1.0, 2.0, 0.75), AnswerSpan("", 0, 0, 0.75, 0.5, 0.25,
        0.25)], 0.75),
            QuestionAnswers([AnswerSpan("b", 0, 1, 0.0, 0.0, 0.0)], 4.0)]  # fmt: skip
    write_squad_predictions(tmp_path, contexts_alone(["", ""]), said, 3.5)
    assert (tmp_path / "predictions.json").read_text() == '{\n    "q0": "\\u00eb",\n    "q1": ""\n}\n'
    assert (tmp_path / "null_odds.json").read_text() == '{\n    "q0": -2.25,\n    "q1": 4.0\n}\n'
    best = json.loads((tmp_path / "nbest_predictions.json").read_text())
    assert [list(answer.items()) for answer in best["q0"]] == [
        [("text", "\u00eb"), ("probability", 0.75), ("start_logit", 1.0), ("end_logit", 2.0)],
        [("text", ""), ("probability", 0.25), ("start_logit", 0.5), ("end_logit", 0.25)],
    ]
    assert [answer["text"] for answer in best["q1"]] == ["b"]


def test_without_a_threshold_every_question_has_an_answer_and_there_are_no_odds(tmp_path):
    write_squad_predictions(
        tmp_path, contexts_alone([""]), [QuestionAnswers([AnswerSpan("b", 0, 1, 0.0, 0.0, 0.0)], 4.0)]
    )
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"q0": "b"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nbest_predictions.json", "predictions.json"]
