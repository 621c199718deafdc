"""Two scored runs: what changed, how the scores differ, and which runs are refused."""

import json
import pathlib
import sys

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.evaluation import entities, metrics
from bert_tf.evaluation.error_reports.answers import QuestionReport
from bert_tf.evaluation.error_reports.multi_label import MultiLabelReport
from bert_tf.evaluation.error_reports.ranking import RetrievalReport
from bert_tf.evaluation.error_reports.regression import RegressionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples, write_table
from bert_tf.evaluation.error_reports.single_label import SingleLabelReport
from bert_tf.evaluation.error_reports.tagging import TaggingReport
from bert_tf.experiments.comparison import compare_runs
from bert_tf.experiments.comparison_page import build_comparison_page, comparison_lines
from bert_tf.experiments.prediction_kinds import KINDS, kind_of_table
from bert_tf.experiments.prediction_tables import read_prediction_tables

LABELLED = ("id", "label", "prediction", "probability", "text")


def write(folder, header, rows, scores=(), task="classification", labels=(), suffix="", file=None):
    """Writes what a scored run leaves."""
    folder.mkdir(exist_ok=True)
    table = "".join("\t".join(map(str, row)) + "\n" for row in [header, *rows])
    (folder / f"eval_predictions{suffix}.tsv").write_text(table, encoding="utf-8")
    (folder / "eval_results.txt").write_text("".join(f"eval_{name} = 0.5\n" for name in scores), encoding="utf-8")
    (folder / "task.json").write_text(json.dumps({"task": task}))
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    (folder / "run.json").write_text(json.dumps({
        "settings": {"label_separator": ";"}, "data": {"dev": [{"file": file}]} if file else {}}))  # fmt: skip
    return str(folder)


def classified(folder, answers, golds="aabb", labels="ab", **more):
    rows = [(i, gold, given, f"0.{9 - i}", f"text {i}")
            for i, (gold, given) in enumerate(zip(golds, answers, strict=True))]  # fmt: skip
    return write(folder, LABELLED, rows, ("accuracy", "f1", "ece"), labels=labels, **more)


def test_what_changed_and_the_difference_of_the_scores(tmp_path):
    one, other = classified(tmp_path / "one", "bbbb"), classified(tmp_path / "other", "aabb")
    (found,) = compare_runs(one, other, samples=200)
    assert [change.id for change in found.better] == ["0", "1"] and found.worse == []
    assert found.better[0] == ("0", "a", "b", "a", "text 0")
    assert (found.count, found.both_right, found.both_wrong) == (4, 2, 0)
    assert list(found.scores) == ["accuracy", "f1"]  # ece is no score of answers
    accuracy = found.scores["accuracy"]
    assert (accuracy.b, accuracy.a, accuracy.difference) == (0.5, 1.0, 0.5)
    assert found.scores["f1"].b == pytest.approx(metrics.classification(
        np.array([0, 0, 1, 1]), np.array([1, 1, 1, 1]), ["f1"], 2)["f1"])  # fmt: skip
    (back,) = compare_runs(other, one, samples=200)
    assert back.better == [] and [change.id for change in back.worse] == ["0", "1"]
    assert back.scores["accuracy"].difference == -0.5


def test_a_run_beside_itself_is_no_better(tmp_path):
    one = classified(tmp_path / "one", "abab")
    (found,) = compare_runs(one, one, samples=100)
    assert (found.better, found.worse, found.both_right, found.both_wrong) == ([], [], 2, 2)
    assert found.scores["accuracy"].difference == 0 and found.scores["accuracy"].p_value == 1


def test_tables_sorted_by_errors_are_put_in_order(tmp_path):
    one, other = classified(tmp_path / "one", "bbbb"), classified(tmp_path / "other", "aabb")
    path = tmp_path / "other" / "eval_predictions.tsv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(rows)]) + "\n")
    (found,) = compare_runs(one, other, samples=50)
    assert [change.id for change in found.better] == ["0", "1"] and found.both_right == 2


def test_tables_without_texts_and_labels_are_compared_too(tmp_path):
    for name, answers in (("one", "ab"), ("other", "bb")):
        write(tmp_path / name, LABELLED[:3], [(0, "a", answers[0]), (1, "b", answers[1])])
    (found,) = compare_runs(str(tmp_path / "one"), str(tmp_path / "other"), samples=50)
    assert found.worse == [("0", "a", "a", "b", "")] and found.scores["accuracy"].difference == -0.5


def test_a_label_that_no_example_has_still_counts_as_a_class(tmp_path):
    one, other = (classified(tmp_path / name, "abab", labels="abc") for name in ("one", "other"))
    assert kind_of_table(read_prediction_tables(one)[""]).read(read_prediction_tables(one)[""]).num_classes == 3
    (found,) = compare_runs(one, other, samples=20)
    assert found.scores["f1"].a == pytest.approx(0.5)  # the mean over a and b, and not the f1 of b alone


def _with_texts(folder, rows, labels):
    """Writes a run that scored these (gold, prediction, text), numbered as lines of its own file."""
    rows = [(i, gold, given, "0.5", text) for i, (gold, given, text) in enumerate(rows)]
    return write(folder, LABELLED, rows, ("accuracy", "f1", "matthews"), labels=labels)


def test_runs_with_other_labels_are_compared_on_those_that_both_have(tmp_path):
    """The second run has lost x and gained c, has its examples in another order, and predicts c for one of b."""
    one = _with_texts(tmp_path / "one", [("a", "a", "t"), ("x", "x", "gone"), ("b", "a", "u"), ("b", "x", "v"),
                                         ("x", "b", "gone")], "abx")  # fmt: skip
    other = _with_texts(tmp_path / "other", [("c", "c", "new"), ("b", "c", "v"), ("b", "b", "u"), ("a", "a", "t"),
                                             ("c", "a", "new"), ("c", "c", "newer")], "abc")  # fmt: skip
    (found,) = compare_runs(one, other, samples=50)
    assert found.count == 3 and found.only_in == ([("x", 2, 1)], [("c", 3, 2)])
    assert (found.both_right, found.both_wrong, found.worse) == (1, 1, [])
    assert found.better == [("2", "b", "a", "b", "u")]  # with the first run's id
    assert (found.scores["accuracy"].b, found.scores["accuracy"].a) == pytest.approx((1 / 3, 2 / 3))
    # F1 of a: 2/3 and 1; of b: 0 and 2/3. The labels x and c, which are predicted too, are no classes of the mean.
    assert (found.scores["f1"].b, found.scores["f1"].a) == pytest.approx((1 / 3, 5 / 6))
    assert "matthews" not in found.scores
    lines = list(comparison_lines([found], one, other, most=1))
    assert "  Labels only in A, not compared: x (2 examples, 1 correct)." in lines
    assert "  Labels only in B, not compared: c (3 examples, 2 correct)." in lines
    assert "Labels only in B, not compared: c" in build_comparison_page([found], one, other, most=1)


def test_labels_that_were_renamed_in_training_are_compared_under_their_new_names(tmp_path):
    rows = [("b", "b", "t"), ("x", "b", "u")]
    one = _with_texts(tmp_path / "one", rows, "bx")
    other = _with_texts(tmp_path / "other", [("b", "b", "t"), ("a", "a", "u")], "ab")
    for folder in (one, other):
        pathlib.Path(folder, "task.json").write_text(json.dumps({"task": "classification", "problem": "single_label"}))
    record = {"retrained_from": {"labels": ["b", "x"], "renamed": {"x": "a"}}}
    pathlib.Path(other, "run.json").write_text(json.dumps(record))
    (found,) = compare_runs(one, other, samples=10)
    assert (found.count, found.only_in, found.renamed) == (2, ((), ()), {"x": "a"})
    assert found.better == [("1", "a", "b", "a", "u")] and "matthews" in found.scores
    assert "  Labels of A, under their names in B: x -> a." in comparison_lines([found], one, other, most=1)


def test_examples_of_shared_labels_must_be_the_same(tmp_path):
    one = _with_texts(tmp_path / "one", [("a", "a", "t"), ("b", "b", "u")], "ab")
    other = _with_texts(tmp_path / "other", [("a", "a", "t"), ("b", "b", "v"), ("c", "c", "w")], "abc")
    with pytest.raises(ValueError, match="Runs must be evaluated on the same examples"):
        compare_runs(one, other, samples=10)


SEVERAL = [("0", "x;y", "x;y"), ("1", "", "x"), ("2", "y", ""), ("3", "x", "x")]


def test_several_labels_are_scored_as_decisions(tmp_path):
    rows = [(*row, 0.5, "t") for row in SEVERAL]
    scores = ("accuracy", "f1", "precision", "recall")
    one = write(tmp_path / "one", LABELLED, rows, scores, labels="xy")
    better = [(row[0], row[1], row[1], 0.5, "t") for row in rows]
    other = write(tmp_path / "other", LABELLED, better, scores, labels="xy")
    (found,) = compare_runs(one, other, samples=50)
    marks = [[[int(name in row[side].split(";")) for name in "xy"] for row in SEVERAL] for side in (1, 2)]
    expected = metrics.classification(*(np.array(each).ravel() for each in marks), scores, 2)
    assert {name: found.scores[name].b for name in scores} == pytest.approx(expected)
    assert [change.id for change in found.better] == ["1", "2"] and found.both_right == 2


def _several(folder, cells, labels, problem="multi_label"):
    rows = [(i, gold, given, "0.9", f"text {i}") for i, (gold, given) in enumerate(cells)]
    path = write(folder, LABELLED, rows, ("accuracy", "f1"), labels=labels)
    (folder / "task.json").write_text(json.dumps({"task": "classification", "problem": problem}))
    return path


def test_names_of_labels_may_hold_what_stands_between_labels(tmp_path):
    labels = ["a;b", "c", "d"]
    one = _several(tmp_path / "one", [("a;b;c", "a;b;c"), ("c", "a;b"), ("", "d")], labels)
    other = _several(tmp_path / "other", [("a;b;c", "a;b"), ("c", "c"), ("", "")], labels)
    (found,) = compare_runs(one, other, samples=50)
    # Nine decisions: the first run is wrong in three of them, the other in one.
    assert (found.scores["accuracy"].b, found.scores["accuracy"].a) == (pytest.approx(6 / 9), pytest.approx(8 / 9))
    assert [change.id for change in found.better] == ["1", "2"] and [change.id for change in found.worse] == ["0"]


def test_labels_that_cannot_be_told_apart_are_refused(tmp_path):
    one = _several(tmp_path / "one", [("a;b", "c")], ["a", "a;b", "b", "c"])
    with pytest.raises(ValueError, match="are ambiguous: 'a;b' may be .*; evaluate the run again with another `label"):
        compare_runs(one, one, samples=10)


@pytest.mark.parametrize(("problem", "accuracy"), [("multi_label", 2 / 3), ("single_label", 0.5)])
def test_the_task_says_whether_there_are_several_labels(tmp_path, problem, accuracy):
    """Where every example happens to have one, decisions are still scored as the run scored them."""
    one = _several(tmp_path / "one", [("a", "a"), ("b", "c")], ["a", "b", "c"], problem)
    (found,) = compare_runs(one, one, samples=10)
    assert found.scores["accuracy"].a == pytest.approx(accuracy)


def test_numbers_change_by_degrees(tmp_path):
    def rated(name, answers):
        rows = [(i, i, answer, f"text {i}") for i, answer in enumerate(answers)]
        return write(tmp_path / name, ("id", "label", "prediction", "text"), rows, ("pearson", "spearman"))

    (found,) = compare_runs(rated("one", [3, 1, 2, 0]), rated("other", [0, 1, 2, 3]), samples=50)
    assert [change.id for change in found.better] == ["0", "3"] and found.both_right is None
    assert found.scores["pearson"].a == pytest.approx(1) and found.scores["spearman"].b < 0


def test_tags_are_scored_as_entities(tmp_path):
    golds = ["B-PER I-PER O", "O B-LOC", "O O"]
    sides = {"one": ["B-PER O O", "O B-LOC", "B-LOC O"], "other": golds}
    header = ("id", "tags", "predicted_tags", "probability", "text")
    for name, given in sides.items():
        rows = [(i, *pair, 0.5, "words") for i, pair in enumerate(zip(golds, given, strict=True))]
        write(tmp_path / name, header, rows, ("f1", "precision", "recall", "accuracy", "f1_PER"), task="tagging")
    (found,) = compare_runs(str(tmp_path / "one"), str(tmp_path / "other"), samples=50)
    expected = entities.score_entities([tags.split() for tags in golds], [tags.split() for tags in sides["one"]])
    assert {name: score.b for name, score in found.scores.items()} == pytest.approx(
        {name: expected[name] for name in ("accuracy", "f1", "precision", "recall")})  # fmt: skip
    assert [change.id for change in found.better] == ["0", "2"]


def test_answers_to_questions_and_places(tmp_path):
    header = ("id", "answer", "prediction", "probability", "exact", "f1", "question", "context")
    one = write(tmp_path / "one", header, [("q", "in Rome", "Rome", 0.5, 0, 0.8, "Where?", "He lives in Rome.")],
                ("exact", "f1"), "question_answering")  # fmt: skip
    other = write(tmp_path / "other", header, [("q", "in Rome", "in Rome", 0.9, 1, 1, "Where?", "He lives in Rome.")],
                  ("exact", "f1"), "question_answering")  # fmt: skip
    (found,) = compare_runs(one, other, samples=20)
    assert found.scores["f1"].difference == pytest.approx(0.2) and len(found.better) == 1
    assert found.better[0].text == "Where? | He lives in Rome."
    for name, place in (("one", 4), ("other", 2)):
        write(tmp_path / name, ("id", "place", "text_a"), [(0, place, "text")], ("mrr",), "embedding")
    (found,) = compare_runs(one, other, samples=20)
    assert found.scores["mrr"].difference == pytest.approx(0.25) and found.better[0].after == "place 2"


SHOWN = {"examples": DisplayedExamples("dev.tsv", ["0", "1"], [2, 3], {"text": ["one", "two"]}, np.array([1, 1]))}
SPAN = entities.EntitySpan("A", 0, 1)
RIGHT_AND_WRONG = {
    "classes": SingleLabelReport(**SHOWN, gold=np.array([0, 1]), probabilities=np.array([[0.9, 0.1], [0.9, 0.1]]),
                                 labels="ab"),
    "several": MultiLabelReport(**SHOWN, gold=np.array([[1, 0], [0, 1]], bool),
                                probabilities=np.array([[0.9, 0.1], [0.9, 0.8]]), labels="ab", separator=";"),
    "numbers": RegressionReport(**SHOWN, gold=np.array([0.0, 1.0]), given=np.array([2.0, 0.5])),
    "spans": TaggingReport(**SHOWN, words=[["one"], ["two"]], gold=[["O"], ["B-A"]], given=[["O"], ["B-A"]],
                           chances=[[0.9], [0.8]], entities=([[], [SPAN]], [[], [SPAN._replace(last=2)]])),
    "tags": TaggingReport(**SHOWN, words=[["x"], ["y"]], gold=[["O"], ["B-A"]], given=[["O"], ["O"]],
                     chances=[[0.9], [0.8]]),
    "questions": QuestionReport(**SHOWN, gold=[["x"], ["y"]], given=["x", "z"], confidence=np.array([0.5, 0.4]),
                           exact=np.array([1.0, 0.0]), f1=np.array([1.0, 0.0])),
    "places": RetrievalReport(**SHOWN, ranks=np.array([1, 3])),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_AND_WRONG)
def test_every_table_that_is_written_can_be_compared(name, tmp_path):
    scores = ("pearson",) if name == "numbers" else ("accuracy", "f1", "exact", "mrr")
    path = write(tmp_path / "one", ("id",), [], scores, labels="ab" if name in ("classes", "several") else "")
    write_table(tmp_path / "one" / "eval_predictions.tsv", RIGHT_AND_WRONG[name])
    (table,) = read_prediction_tables(path).values()
    kinds = ["numbers", "several", "classes", "spans", "tags", "questions", "places"]
    assert KINDS.index(kind_of_table(table)) == kinds.index(name)
    assert kind_of_table(table).texts(table) == ["one", "two"]
    goodness = kind_of_table(table).read(table).goodness
    assert goodness[0] == 1 > goodness[1] or name == "numbers"
    (found,) = compare_runs(path, path, samples=10)
    assert found.count == 2 and not found.better and found.scores


def test_what_cannot_be_compared_is_refused_by_name(tmp_path):
    one = classified(tmp_path / "one", "aabb", file="dev.tsv")
    with pytest.raises(ValueError, match="Not the `output_dir` of an evaluated run: .*/none, where no"):
        compare_runs(one, str(tmp_path / "none"))
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="which has no eval_predictions.tsv. Evaluate it with `do_eval`"):
        compare_runs(one, str(tmp_path / "none"))
    tagger = classified(tmp_path / "tagger", "aabb", task="tagging")
    with pytest.raises(ValueError, match="different tasks: .*/one of classification, .*/tagger of"):
        compare_runs(one, tagger)
    longer = classified(tmp_path / "longer", "aabba", golds="aabba", file="test.tsv")
    message = (
        r"one/eval_predictions.tsv \(4 examples of dev.tsv\) and .*/longer/eval_predictions.tsv \(5 examples of test"
        r".tsv\) differ from example 5 on: 'none' and '4 a text 4'"
    )
    with pytest.raises(ValueError, match=message):
        compare_runs(one, longer)
    other = classified(tmp_path / "other", "aabb", golds="abbb")
    with pytest.raises(ValueError, match="differ from example 2 on: '1 a text 1' and '1 b text 1'; evaluate both"):
        compare_runs(one, other)
    others = classified(tmp_path / "others", "ccdd", golds="ccdd", labels="cd")
    with pytest.raises(ValueError, match="different labels: .*/one has a, b, .*/others has c, d. Compare two runs"):
        compare_runs(one, others)
    several = [_several(tmp_path / labels, [("a;b", "a")], labels) for labels in ("ab", "abc")]
    with pytest.raises(ValueError, match="different labels: .*/ab has a, b, .*/abc has a, b, c"):
        compare_runs(*several)
    unseen = classified(tmp_path / "unseen", "cc", golds="cc", labels="abc")
    with pytest.raises(ValueError, match="unseen/eval_predictions.tsv has no example of a label that both .*: a, b"):
        compare_runs(one, unseen)
    mismatched = classified(tmp_path / "mismatched", "aabb", suffix="_mismatched")
    with pytest.raises(ValueError, match="the same file: .*eval_predictions.tsv, .*_mismatched.tsv. Ev"):
        compare_runs(one, mismatched)


def test_a_broken_table_names_the_line(tmp_path):
    one = classified(tmp_path / "one", "aabb")
    path = tmp_path / "one" / "eval_predictions.tsv"
    path.write_text(path.read_text().replace("text 1\n", "text 1\tmore\n"))
    with pytest.raises(ValueError, match=r"one/eval_predictions.tsv:3: a predictions file needs a header with"):
        compare_runs(one, one)


def test_scores_of_another_file_are_those_of_its_own_results(tmp_path):
    rows = [(i, i / 2, i / 3, f"text {i}") for i in range(4)]
    folder = tmp_path / "one"
    write(folder, ("id", "label", "prediction", "text"), rows, ["pearson"], suffix="_test")
    (folder / "eval_results.txt").write_text("eval_pearson = 0.5\neval_pearson_mismatched = 0.4\n")
    (folder / "eval_results_test.txt").write_text("eval_pearson = 0.75\nglobal_step = 3\n")
    tables = read_prediction_tables(str(folder))
    assert tables["_test"].scores == {"pearson": 0.75} and kind_of_table(tables["_test"]) is KINDS[0]
    (folder / "eval_predictions_test.tsv").rename(folder / "eval_predictions_mismatched.tsv")
    assert read_prediction_tables(str(folder))["_mismatched"].scores["pearson"] == 0.4


def test_lines_and_page_show_scores_and_changed_examples(tmp_path):
    one, other = classified(tmp_path / "one", "bbab"), classified(tmp_path / "other", "aabb")
    found = compare_runs(one, other, samples=200)
    text = list(comparison_lines(found, one, other, most=1))
    assert text[:2] == [f"A: {one}", f"B: {other}"]
    assert any(line.startswith("  accuracy: A 25.00, B 100.00: +75.00 (95% interval +") for line in text)
    assert "    0\tb -> a\ttext 0" in text and "    and 2 more" in text
    html = build_comparison_page(found, one, other, most=10)
    assert "Wrong in A, correct in B: 3" in html and "text 1" in html


def test_a_run_that_learned_nothing_is_named_and_not_tested(tmp_path):
    one, other = classified(tmp_path / "one", "bbbb"), classified(tmp_path / "other", "aabb")
    found = compare_runs(one, other, samples=50)
    assert found[0].one_answers == ("b", None)
    text = list(comparison_lines(found, one, other, most=1))
    assert "  A predicts 'b' for all 4 examples: it has learned nothing." in text
    assert "  accuracy: A 50.00, B 100.00: +50.00; not compared" in text and not any("p = " in line for line in text)
    html = build_comparison_page(found, one, other, most=1)
    assert "A predicts &#x27;b&#x27; for all 4 examples" in html and "not compared: a run has learned nothing" in html
    both = compare_runs(one, classified(tmp_path / "third", "aaaa"), samples=50)
    assert both[0].one_answers == ("b", "a")


def test_compare_prints_and_writes_a_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bert-tf"])
    one, other = classified(tmp_path / "o<n>e", "bbbb"), classified(tmp_path / "other", "aabb")
    with pytest.raises(SystemExit) as end:
        main.start_program("compare", [one, other, f"--output_file={tmp_path}/page.html", "--samples=100"])
    assert not end.value.code and "Only A correct: 0." in capsys.readouterr().out
    assert "o&lt;n&gt;e" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main.start_program("compare", [one])
    assert end.value.code == 1
