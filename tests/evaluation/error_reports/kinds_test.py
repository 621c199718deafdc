"""The pages of several labels, numbers, tags, questions and places."""

import dataclasses

import numpy as np
import pytest

from bert_tf.evaluation.entities import EntitySpan
from bert_tf.evaluation.error_reports.answers import QuestionReport, question_words
from bert_tf.evaluation.error_reports.multi_label import MultiLabelReport
from bert_tf.evaluation.error_reports.page_parts import render_headline
from bert_tf.evaluation.error_reports.ranking import RetrievalReport
from bert_tf.evaluation.error_reports.regression import RegressionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.error_reports.tagging import TaggingReport, kind_of_error, match_entities
from tests.evaluation.error_reports.support import Sections, shown


def test_report_of_several_labels():
    gold = np.array([[1, 1], [0, 0], [1, 0]], bool)
    chances = np.array([[0.9, 0.2], [0.4, 0.1], [0.9, 0.95]])
    judged = MultiLabelReport(examples=shown(["a", "b", "c"]), gold=gold, probabilities=chances, labels=["x", "y"])
    assert judged.label_results() == {"x": (2, 2, 2), "y": (1, 1, 0)}
    page = Sections(judged)
    rates = page.tables["Precision, recall and F1 by label"][0]
    assert [row[:4] for row in rates[1:]] == [["x", "2", "2", "2"], ["y", "1", "1", "0"]]
    assert page.tables["Most confident errors"][0][1:] == [
        ["4", "x", "", "y 0.950", "c"],
        ["2", "x,y", "y 0.200", "", "a"],
    ]
    assert page.tables["Results by number of labels"][0][1:] == [
        ["0", "1", "100.0%", "100.0%"],
        ["1", "1", "0.0%", "50.0%"],
        ["2", "1", "0.0%", "50.0%"],
    ]


def test_report_of_regression():
    gold, given = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 2.0])
    page = Sections(RegressionReport(examples=shown(["a", "b", "c"]), gold=gold, given=given))
    rows = {row[0]: row[1] for row in page.tables["Error measures"][0]}
    assert rows["mean absolute error (MAE)"] == "0.8333" and rows["mean error"] == "-0.5"
    assert page.tables["Largest errors"][0][1] == ["4", "4", "2", "-2", "c"]
    assert {"Residuals by length", "Results by length"} <= page.tables.keys()
    assert 'aria-label="Predicted and true values"' in page.html


def test_numbers_that_are_none_are_no_error():
    page = Sections(RegressionReport(examples=shown(["a"]), gold=np.ones(1), given=np.array([np.nan])))
    assert "not finite numbers" in page.html


_NOTHING = ": the model has learned nothing. Train longer, or try another learning rate."


def test_models_that_give_one_answer_to_all_are_warned_of():
    one, numbers = shown(["a", "b"]), np.array([1.0, 3.0])
    marks = {"gold": np.array([[1, 0], [0, 1]], bool), "labels": ["x", "y"]}
    tags = {"words": [["a"], ["b"]], "chances": [[0.9], [0.9]], "gold": [["O"], ["B-X"]]}
    asked = {"confidence": np.ones(2), "exact": np.zeros(2), "f1": np.zeros(2), "gold": [["a"], []]}
    for judged, answers in (
        (RegressionReport(examples=one, gold=numbers, given=np.full(2, 2.5)), "2.5"),
        (MultiLabelReport(examples=one, probabilities=np.array([[0.9, 0.6]] * 2), **marks), "'x,y'"),
        (MultiLabelReport(examples=one, probabilities=np.zeros([2, 2]), **marks), "none of the labels"),
        (TaggingReport(examples=one, given=[["O"], ["O"]], **tags), "the tag 'O'"),
        (QuestionReport(examples=one, given=["", ""], **asked), "empty (no answer)"),
        (QuestionReport(examples=one, given=["a", "a"], **asked), "'a'"),
    ):
        assert judged.warning == f"All 2 predictions on {one.path.split('/')[-1]} are {answers}{_NOTHING}"
    for judged in (
        RegressionReport(examples=one, gold=numbers, given=numbers[::-1]),
        RegressionReport(examples=one, gold=np.ones(2), given=np.ones(2)),
        RegressionReport(examples=one, gold=numbers, given=np.full(2, np.nan)),
        MultiLabelReport(examples=one, probabilities=np.array([[0.9, 0.1], [0.1, 0.1]]), **marks),
        TaggingReport(examples=one, given=[["O"], ["B-Y"]], **tags),
        QuestionReport(examples=one, given=["a", ""], **asked),
    ):
        assert judged.warning == ""


def test_report_of_retrieval():
    page = Sections(RetrievalReport(examples=shown(["a", "b"]), ranks=np.array([1, 7])))
    assert page.tables["Overview"][0][1] == ["top 1", "50.0%"]
    assert page.tables["Lowest-ranked matches"][0][1:] == [["3", "7", "b"]]


A, B = EntitySpan("PER", 0, 1), EntitySpan("LOC", 3, 3)


@pytest.mark.parametrize(
    ("gold", "given", "kinds"),
    [
        ([A, B], [A, B], ["correct", "correct"]),
        ([A], [EntitySpan("PER", 0, 0)], ["wrong boundaries"]),
        ([A], [EntitySpan("ORG", 0, 1)], ["wrong type"]),
        ([A], [EntitySpan("ORG", 1, 2)], ["wrong type and boundaries"]),
        ([A], [B], ["missing", "spurious"]),
        ([A], [EntitySpan("PER", 0, 0), EntitySpan("PER", 1, 1)], ["wrong boundaries", "spurious"]),
        ([EntitySpan("PER", 0, 0), EntitySpan("PER", 1, 1)], [A], ["wrong boundaries", "missing"]),
        ([A], [EntitySpan("ORG", 0, 0), EntitySpan("ORG", 0, 1)], ["wrong type", "spurious"]),  # equal words come first
    ],
)
def test_every_entity_is_compared_with_one_at_most(gold, given, kinds):
    assert [kind_of_error(*pair) for pair in match_entities(gold, given)] == kinds


def test_report_of_tagging():
    words = [["Joan", "Baez", "in", "Rome"], ["no", "name"], ["x", "y"]]
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC", "O"]]
    given = [["B-PER", "O", "O", "B-ORG"], ["O", "B-LOC"], ["B-LOC", "O"]]
    chances = [[0.9, 0.6, 0.9, 0.7], [0.9, 0.8], [0.99, 0.99]]
    examples = shown([" ".join(each) for each in words], unit="words")
    judged = TaggingReport(examples=examples, words=words, gold=gold, given=given, chances=chances)
    page = Sections(judged)
    with_types = dataclasses.replace(judged, types=["LOC", "MISC", "PER"])  # of the model
    assert with_types.label_results() == {"LOC": (2, 2, 1), "MISC": (0, 0, 0), "ORG": (0, 1, 0), "PER": (1, 1, 0)}
    assert [row[:4] for row in page.tables["Precision, recall and F1 by type"][0][1:]] == [
        ["LOC", "2", "2", "1"], ["ORG", "0", "1", "0"], ["PER", "1", "1", "0"],
    ]  # fmt: skip
    kinds = page.tables["Overview"][0]
    names = ["correct", "wrong boundaries", "wrong type", "wrong type and boundaries", "missing", "spurious"]
    assert kinds[0] == ["type", *names]
    assert kinds[1:] == [["LOC", *"101001"], ["ORG", *"000000"], ["PER", *"010000"]]
    matrix = page.tables["Confusion matrix of entity types"][0]
    assert matrix[1][1:] == ["LOC", "ORG", "PER", "no entity"]
    rows = [[cell.split()[0] for cell in row[-4:]] for row in matrix[2:]]
    assert rows == [list("1100"), list("0000"), list("0010"), list("1000")]
    assert page.tables["Most confident errors"][0][1:] == [
        ["3", "", "LOC name", "0.800", "no name"],
        ["2", "PER Joan Baez; LOC Rome", "PER Joan; ORG Rome", "0.700", "Joan Baez in Rome"],
    ]
    assert judged.columns() == {"tags": ["B-PER I-PER O B-LOC", "O O", "B-LOC O"],
                                "predicted_tags": ["B-PER O O B-ORG", "O B-LOC", "B-LOC O"],
                                "probability": ["0.6", "0.8", "0.99"]}  # fmt: skip
    by_length = page.tables["Results by length"][0]
    assert by_length[1:] == [["2", "2", "50.0%", "66.7%"], ["4", "1", "0.0%", "0.0%"]]


def test_errors_of_tagging_are_ordered_and_their_scores_can_be_told_apart():
    words, gold, given = [["a", "b"]] * 4, [["B-X", "O"]] * 4, [["O", "O"], ["O", "O"], ["B-Y", "B-Y"], ["B-X", "B-Y"]]
    chances = [[0.9992, 1.0], [0.9999981, 1.0], [0.9992, 0.9992], [1.0, 0.5]]
    examples = shown(["a b"] * 4, unit="words")
    judged = TaggingReport(examples=examples, words=words, gold=gold, given=given, chances=chances)
    rows = Sections(judged).tables["Most confident errors"][0][1:]
    assert [row[0] for row in rows] == list("3425")
    assert [row[3] for row in rows] == ["0.9999981", "0.99920", "0.99920", "0.500"]


def test_entities_of_texts_are_compared_by_character():
    text, gold, given = "Rome-based firm", [EntitySpan("LOC", 0, 3)], [EntitySpan("LOC", 0, 9)]
    judged = TaggingReport(
        examples=shown([text], unit="words"), words=[text.split()], gold=[["B-LOC", "O"]], given=[["B-LOC", "O"]],
        chances=[[0.75, 0.8]], entities=([gold], [given]),
    )  # fmt: skip
    page = Sections(judged)
    assert page.tables["Overview"][0][1:] == [["LOC", *"010000"]]
    assert page.tables["Most confident errors"][0][1:] == [["2", "LOC Rome", "LOC Rome-based", "0.800", text]]
    assert judged.columns()["entities"] == ["0:4:LOC"] and judged.columns()["predicted_entities"] == ["0:10:LOC"]


def test_sentences_without_any_entity():
    examples = shown(["a b"], unit="words")
    page = Sections(TaggingReport(examples=examples, words=[["a", "b"]], gold=[["O", "O"]], given=[["O", "O"]],
                             chances=[[0.9, 0.9]]))  # fmt: skip
    assert "Precision, recall and F1 by type" not in page.tables and "None." in page.text["Most confident errors"]


def _questions(asked, gold, given, confidence, exact, f1):
    n = len(asked)
    texts = {"question": asked, "context": ["the long context " * 30] * n}
    ids = [f"q{i}" for i in range(n)]
    examples = DisplayedExamples("dev.json", ids, ids, texts, np.full(n, 90), "words", "id")
    numbers = {"confidence": np.array(confidence), "exact": np.array(exact), "f1": np.array(f1)}
    return QuestionReport(examples=examples, gold=gold, given=given, threshold=-1.5, **numbers)


def test_report_of_questions():
    asked = ["Who sang ?", "In which year ?", "How many songs ?", "who was <b>he</b> ?"]
    gold = [["Joan Baez", "Baez"], ["1959"], [], ["a man of the people"]]
    judged = _questions(asked, gold, ["Baez", "in 1960", "", ""], [0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0], [1, 0, 1, 0.5])
    page = Sections(judged)
    assert page.tables["Answerable and unanswerable questions"][0] == [
        ["question", "questions", "exact match", "F1", "no answer predicted"],
        ["answerable", "3", "33.3%", "50.0%", "33.3%"],
        ["unanswerable", "1", "100.0%", "100.0%", "100.0%"],
    ]
    assert "more than -1.5" in page.text["Answerable and unanswerable questions"]
    assert [row[:3] for row in page.tables["Overview"][0][1:]] == [
        ["who", "2", "50.0%"], ["which", "1", "0.0%"], ["how many", "1", "100.0%"],
    ]  # fmt: skip
    assert [row[:2] for row in page.tables["Results by length of the true answer"][0][1:]] == [["1", "2"], ["5", "1"]]
    worst = page.tables["Most confident errors"][0]
    assert worst[0] == ["id", "question", "true answer", "predicted answer", "probability", "F1", "context"]
    assert [row[:6] for row in worst[1:]] == [
        ["q1", "In which year ?", "1959", "in 1960", "0.800", "0.00"],
        ["q3", "who was <b>he</b> ?", "a man of the people", "(none)", "0.600", "0.50"],
    ]
    assert judged.columns()["answer"] == ["Joan Baez", "1959", "", "a man of the people"]


def test_an_f1_of_another_threshold_has_no_interval():
    judged = _questions(["Who ?"] * 3, [["a"]] * 3, ["a", "", "b"], [0.9, 0.8, 0.7], [1, 0, 0], [1, 0.5, 0])
    page = render_headline({"dev": judged}, {"eval_f1": 50.0, "eval_best_f1": 50.0})
    assert "<strong>50</strong> <b>F1</b> <span>95% confidence interval 0 to 100</span>" in page
    page = render_headline({"dev": judged}, {"eval_f1": 49.9, "eval_best_f1": 50.0})
    assert "<strong>49.9</strong> <b>F1</b> <span></span>" in page
    assert [judged.is_of("exact", value) for value in (100 / 3, 50.0)] == [True, False]


def test_questions_of_another_language_go_by_their_first_word():
    words, kind = question_words(["Wer ist das ?", "Wer sang ?", "Wo ?", ""])
    assert (words, kind) == (["wer", "wer", "wo", ""], "first word")
