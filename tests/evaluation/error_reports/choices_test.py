"""The page of a classifier's answers: numbers as a hand gets them, any number of labels, labels with markup."""

import numpy as np

from bert_tf.evaluation.error_reports.common import render_scored
from bert_tf.evaluation.error_reports.labels import MultipleChoiceReport
from tests.evaluation.error_reports.support import NASTY, Sections, choices, shown

GOLD = [0, 0, 0, 1]
CHANCES = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]]


def _many(labels):
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(labels, 0.1), 300)
    return choices(rng.integers(0, labels, 300), chances, [f"label {i}" for i in range(labels)])


def test_report_of_two_labels():
    page = Sections(choices(GOLD, CHANCES, ["no", NASTY], texts=["a", "b " * 4, NASTY, "d"]))
    names = ["Each label", "Averages", "Confusions", "Calibration", "Calibration, as numbers"]
    assert [*page.tables][1:] == [*names, "Most confident errors", "By length"]
    (each,) = page.tables["Each label"]
    assert each[0] == ["label", "examples", "given", "right", "precision", "recall", "F1"]
    assert each[1:] == [["no", "3", "1", "1", "100.0 %", "33.3 %", "50.0 %"],
                        [NASTY, "1", "3", "1", "33.3 %", "100.0 %", "50.0 %"]]  # fmt: skip
    assert page.tables["Averages"][0][1:] == [
        ["macro", "66.7 %", "66.7 %", "50.0 %"],
        ["weighted", "83.3 %", "50.0 %", "50.0 %"],
        ["micro", "50.0 %", "50.0 %", "50.0 %"],
    ]
    assert "macro: the plain mean over the labels that occur" in page.text["Averages"]
    assert page.tables["Confusions"] == [[["right ↓   given →", "no", NASTY], ["no", "1", "2"], [NASTY, "0", "1"]]]
    (errors,) = page.tables["Most confident errors"]
    assert errors == [
        ["line", "right label", "given label", "its probability", "text"],
        ["3", "no", NASTY, "0.800", "b b b b "],
        ["4", "no", NASTY, "0.600", NASTY],
    ]
    assert "script" not in page.tags and "2 of 4 answers are wrong" in page.text["Most confident errors"]


def test_one_answer_to_all_is_warned_of_first_where_there_are_several_labels():
    always = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]
    judged = choices(GOLD, always, ["good", "<bad>"])
    assert judged.warning == (
        "All 4 answers on dev.tsv are the label 'good', and always answering so has an accuracy of 0.750: the model "
        "has learned nothing; train longer, or try another learning rate."
    )
    page = render_scored({"dev": judged}, {"accuracy": 0.75})
    assert page.count("Warning: All 4 answers") == 1 and page.index("Warning: ") < page.index("<table")
    for other in (choices(GOLD, CHANCES, ["good", "bad"]), choices([0, 0, 0, 0], always, ["good", "bad"])):
        assert other.warning == "" and "Warning" not in render_scored({"dev": other}, {"accuracy": 0.5})


def test_calibration_error_of_the_report_is_the_score_s():
    page = Sections(choices(GOLD, CHANCES, ["no", "yes"]))
    assert "ECE 0.4500" in page.text["Calibration"]  # (0.1 + 0.8 + 0.6 + 0.3) / 4
    assert sum(int(row[1]) for row in page.tables["Calibration, as numbers"][0][1:]) == 4


def test_fifty_labels_are_drawn_and_the_most_frequent_confusions_listed():
    page = Sections(_many(50))
    (pairs,) = page.tables["Confusions"]
    assert pairs[0] == ["right label", "given label", "how often", "share"] and len(pairs) == 16
    assert 'aria-label="Which is taken for which: 50 labels"' in page.html
    assert len(page.tables["Each label"][0]) == 51 and len(page.tables["The labels of least F1"][0]) == 11


def test_of_very_many_labels_the_most_mixed_up_are_drawn():
    assert "the 60 of 150 labels that are mixed up most" in Sections(_many(150)).html


def test_of_a_vast_number_of_labels_those_are_compared_that_are_mixed_up():
    count, gold = 5_000, np.arange(0, 5_000, 10)
    given = np.where(gold < 100, gold + 1, gold)
    chances = np.zeros([len(gold), count], np.float32)
    chances[np.arange(len(gold)), given] = 1.0
    page = Sections(choices(gold, chances, [f"l{i}" for i in range(count)], ["a"] * len(gold)))
    assert page.tables["Confusions"][0][1] == ["l0", "l1", "1", "100.0 %"]
    assert "Of 5,000 labels the 500 that are mixed up most" in page.text["Confusions"]


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
    assert page.tables["By number of choices"][0] == [
        ["choices", "examples", "right"],
        ["2", "1", "0.0 %"],
        ["3", "1", "100.0 %"],
    ]


def test_lengths_are_grouped():
    texts = ["w " * (i + 1) for i in range(10)]
    page = Sections(choices([0] * 10, [[0.9, 0.1]] * 5 + [[0.2, 0.8]] * 5, ["no", "yes"], texts))
    rows = page.tables["By length"][0]
    assert rows[0] == ["tokens", "examples", "right", "mean probability"]
    assert [row[:3] for row in rows[1:]] == [
        ["1 to 2", "2", "100.0 %"], ["3 to 4", "2", "100.0 %"], ["5 to 6", "2", "50.0 %"],
        ["7 to 8", "2", "0.0 %"], ["9 to 10", "2", "0.0 %"],
    ]  # fmt: skip


def test_scores_of_every_file_have_their_remark():
    judged = choices(GOLD, CHANCES, ["no", "yes"], remarks={"f1": "of 'yes', the last label"})
    text = render_scored({"dev": judged, "dev_mismatched": judged}, {"eval_f1": 0.5, "eval_f1_mismatched": 0.25}, 1200)
    assert text.count("<td>of &#x27;yes&#x27;, the last label</td>") == 2
    assert "Of the model after step 1,200." in text and text.count("What it does on dev.tsv") == 2
