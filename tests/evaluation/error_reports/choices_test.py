"""The page of a classifier's answers: numbers as a hand gets them, any number of labels, labels with markup."""

import numpy as np
import pytest

from bert_tf.evaluation.error_reports.page_parts import render_errors, render_headline
from bert_tf.evaluation.error_reports.single_label import MultipleChoiceReport
from tests.evaluation.error_reports.support import NASTY, Sections, choices, shown

GOLD = [0, 0, 0, 1]
RATES = "Precision, recall and F1 by label"
CHANCES = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]]


def _many(labels):
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(labels, 0.1), 300)
    return choices(rng.integers(0, labels, 300), chances, [f"label {i}" for i in range(labels)])


def test_report_of_two_labels():
    page = Sections(choices(GOLD, CHANCES, ["no", NASTY], texts=["a", "b " * 4, NASTY, "d"]))
    names = ["Overview", "Most confident errors", RATES, "Calibration", "Calibration bins", "Results by length"]
    assert [*page.tables][1:] == names
    each, averages = page.tables[RATES]
    assert each[0] == ["label", "examples", "predicted", "correct", "precision", "recall", "F1"]
    assert each[1:] == [["no", "3", "1", "1", "100.0%", "33.3%", "50.0%"],
                        [NASTY, "1", "3", "1", "33.3%", "100.0%", "50.0%"]]  # fmt: skip
    assert averages[1:] == [["macro", "66.7%", "66.7%", "50.0%"], ["weighted", "83.3%", "50.0%", "50.0%"]]
    assert "Macro is the unweighted mean over the labels that occur" in page.text[RATES]
    (matrix,) = page.tables["Overview"]
    assert matrix[0] == ["", "predicted label"] and matrix[1] == ["", "no", NASTY]
    assert matrix[2:] == [["true label", "no3", "1 33.3%", "2 66.7%"], [f"{NASTY}1", "0 0.0%", "1 100.0%"]]
    (errors,) = page.tables["Most confident errors"]
    assert errors == [
        ["line", "true label", "predicted label", "probability", "text"],
        ["3", "no", NASTY, "0.800", "b b b b "],
        ["4", "no", NASTY, "0.600", NASTY],
    ]
    assert "script" not in page.tags and "2 of 4 predictions are wrong" in page.text["Most confident errors"]


def test_one_answer_to_all_is_warned_of_first_where_there_are_several_labels():
    always = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]
    judged = choices(GOLD, always, ["good", "<bad>"])
    assert judged.warning == (
        "All 4 predictions on dev.tsv are the label 'good', and always predicting it has an accuracy of 0.750: the "
        "model has learned nothing. Train longer, or try another learning rate."
    )
    page = render_headline({"dev": judged}, {"accuracy": 0.75, "loss": 0.5})
    assert page.count("Warning: All 4 predictions") == 1 and page.index("Warning: ") < page.index("<table")
    for other in (choices(GOLD, CHANCES, ["good", "bad"]), choices([0, 0, 0, 0], always, ["good", "bad"])):
        assert other.warning == "" and "Warning" not in render_headline({"dev": other}, {"accuracy": 0.5})


def test_calibration_error_of_the_report_is_the_score_s():
    page = Sections(choices(GOLD, CHANCES, ["no", "yes"]))
    assert "(ECE) is 0.4500" in page.text["Calibration"]  # (0.1 + 0.8 + 0.6 + 0.3) / 4
    assert sum(int(row[1]) for row in page.tables["Calibration bins"][0][1:]) == 4


def test_fifty_labels_are_drawn_and_the_most_frequent_confusions_listed():
    page = Sections(_many(50))
    (pairs,) = page.tables["Most frequent confusions"]
    assert pairs[0] == ["true label", "predicted label", "count", "% of true label"] and len(pairs) == 16
    assert 'aria-label="Confusion matrix: 50 labels"' in page.html
    assert len(page.tables[RATES][0]) == 51 and len(page.tables["Labels with the lowest F1"][0]) == 11


@pytest.mark.slow
def test_of_very_many_labels_the_most_mixed_up_are_drawn():
    assert "the 60 of 150 labels that are confused most often" in Sections(_many(150)).html


@pytest.mark.slow
def test_of_a_vast_number_of_labels_those_are_compared_that_are_mixed_up():
    count, gold = 5_000, np.arange(0, 5_000, 10)
    given = np.where(gold < 100, gold + 1, gold)
    chances = np.zeros([len(gold), count], np.float32)
    chances[np.arange(len(gold)), given] = 1.0
    page = Sections(choices(gold, chances, [f"l{i}" for i in range(count)], ["a"] * len(gold)))
    assert page.tables["Most frequent confusions"][0][1] == ["l0", "l1", "1", "100.0%"]
    assert "Of 5,000 labels, the 500 that are confused most often" in page.text["Overview"]


def test_without_an_error_the_page_says_so():
    page = Sections(choices([0, 1], [[0.9, 0.1], [0.1, 0.9]], ["no", "yes"]))
    assert page.tables["Most confident errors"] == [] and "None." in page.text["Most confident errors"]


def test_choices_are_shown_with_their_texts():
    chances = np.array([[0.2, 0.8, 0], [0.1, 0.3, 0.6]])
    meanings = [["yes it is", "no"], ["a", "b", "c"]]
    judged = MultipleChoiceReport(examples=shown(["one", "two"]), gold=np.array([0, 2]), probabilities=chances,
        labels=list("012"),
                     meanings=meanings)  # fmt: skip
    page = Sections(judged)
    assert page.tables["Most confident errors"][0][1] == ["2", "0: yes it is", "1: no", "0.800", "one"]
    assert page.tables["Results by number of choices"][0] == [
        ["choices", "examples", "accuracy"],
        ["2", "1", "0.0%"],
        ["3", "1", "100.0%"],
    ]


def test_lengths_are_grouped():
    texts = ["w " * (i + 1) for i in range(10)]
    page = Sections(choices([0] * 10, [[0.9, 0.1]] * 5 + [[0.2, 0.8]] * 5, ["no", "yes"], texts))
    rows = page.tables["Results by length"][0]
    assert rows[0] == ["tokens", "examples", "accuracy", "mean probability"]
    assert [row[:3] for row in rows[1:]] == [
        ["1 to 2", "2", "100.0%"], ["3 to 4", "2", "100.0%"], ["5 to 6", "2", "50.0%"],
        ["7 to 8", "2", "0.0%"], ["9 to 10", "2", "0.0%"],
    ]  # fmt: skip


def test_scores_of_every_file_have_their_remark():
    judged = choices(GOLD, CHANCES, ["no", "yes"], remarks={"f1": "of 'yes', the last label"})
    both = {"dev": judged, "dev_mismatched": judged}
    text = render_headline(both, {"eval_f1": 0.5, "eval_f1_mismatched": 0.25, "eval_accuracy": 0.5}, 1200)
    assert "F1, F1 mismatched: of &#x27;yes&#x27;, the last label." in text and text.count("of &#x27;yes") == 1
    assert "Checkpoint after step 1,200." in text and render_errors(both).count("Error analysis: dev.tsv") == 2


def test_the_main_metric_has_its_interval_and_is_there_once():
    text = render_headline({"dev": choices(GOLD, CHANCES, ["no", "yes"])}, {"eval_accuracy": 0.5, "eval_loss": 0.25})
    assert "<strong>0.5</strong> <b>accuracy</b> <span>95% confidence interval 0.15 to 0.85</span>" in text
    assert text.count("accuracy") == 1 and "Text classification on dev.tsv" in text
    assert "<strong>" not in render_headline({}, {"loss": 1.0})
