"""What scoring shows: error reports of scored examples, and warnings."""

import types

import numpy as np

from bert_tf.evaluation.error_reports.multi_label import MultiLabelReport
from bert_tf.runs.scored_answers import error_reports, show_answers, show_scored, warn_of_teacher
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.base import SplitPredictions
from bert_tf.tasks.options import RunOptions, TeacherOptions
from tests.evaluation.error_reports.support import choices, shown

_SETTINGS = fine_tuning_settings(RunOptions)


def test_every_file_has_a_table_and_a_place_on_the_page_and_what_a_task_does_not_judge_has_none(tmp_path, caplog):
    judged = choices([0, 0], [[0.9, 0.1], [0.2, 0.8]], ["no", "yes"])
    answers = {"dev": judged, "dev_mismatched": judged, "dev_other": None}
    task = types.SimpleNamespace(
        error_report=lambda outcome: answers[outcome.split], extra_report_sections=lambda *_: None
    )
    shown = {}
    history = types.SimpleNamespace(show=lambda name, make: shown.update({name: make()}))
    job = types.SimpleNamespace(history=history, global_step=1200)
    outcomes = [SplitPredictions(split, None, None, np.zeros(2), None) for split in answers]
    settings = _SETTINGS(output_dir=str(tmp_path), sort_predictions="errors")
    scores = {"eval_accuracy": 0.5, "eval_accuracy_mismatched": 0.5}
    show_scored(task, outcomes, error_reports(task, outcomes), scores, job, settings)
    names = ["eval_predictions.tsv", "eval_predictions_mismatched.tsv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    lines = (tmp_path / "eval_predictions_mismatched.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["id", "id1", "id0"]
    assert [*shown] == ["headline", "overview", "eval", "more"]
    assert "All " not in caplog.text
    assert shown["eval"].count("Error analysis: dev.tsv") == 2 and "step 1,200" in shown["headline"]


def test_a_model_that_always_gives_one_answer_is_warned_of_in_the_log(tmp_path, caplog):
    judged = choices([0, 1], [[0.9, 0.1], [0.8, 0.2]], ["no", "yes"])
    task = types.SimpleNamespace(error_report=lambda outcome: judged, extra_report_sections=lambda *_: None)
    job = types.SimpleNamespace(history=types.SimpleNamespace(show=lambda name, make: None), global_step=12)
    outcome, settings = SplitPredictions("dev", None, None, np.zeros(2), None), _SETTINGS(output_dir=str(tmp_path))
    show_scored(task, [outcome], error_reports(task, [outcome]), {"eval_accuracy": 0.5}, job, settings)
    show_answers(task, outcome, {"accuracy": 0.5}, job)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [judged.warning] * 2
    assert judged.warning.startswith("All 2 predictions on dev.tsv are the label 'no'")


def test_labels_that_are_never_predicted_or_never_tested_are_warned_of(tmp_path, caplog):
    chances = [[0.8, 0.1, 0.05, 0.05], [0.1, 0.8, 0.05, 0.05], [0.7, 0.2, 0.05, 0.05], [0.7, 0.2, 0.05, 0.05]]
    judged = {"dev": choices([0, 1, 2, 2], chances, ["no", "yes", "new", "old"])}
    task = types.SimpleNamespace(extra_report_sections=lambda *_: None)
    job = types.SimpleNamespace(history=types.SimpleNamespace(show=lambda name, make: None), global_step=12)
    never = "dev.tsv has examples of 1 label that is never predicted: 'new' (2 examples). Train for more steps or " \
        "with `class_weights=balanced`, or add examples."
    missing = "dev.tsv has no examples of 1 label, so its quality is not measured: 'old'."
    for do_train, expected in ((True, [never]), (False, [never, missing])):  # the check of the data names the others
        caplog.clear()
        settings = _SETTINGS(output_dir=str(tmp_path), do_train=do_train)
        show_scored(task, [], judged, {"eval_accuracy": 0.5}, job, settings)
        assert [record.getMessage() for record in caplog.records] == expected


def test_labels_that_are_always_predicted_are_warned_of(tmp_path, caplog):
    """Of several labels: of one label, it is the model that always gives one answer."""
    gold = np.array([[1, 0], [0, 1], [0, 0]], bool)
    chances = np.array([[0.9, 0.8], [0.6, 0.1], [0.7, 0.2]])
    of_texts = {"examples": shown(["a", "b", "c"]), "labels": ["film", "good"]}
    judged = MultiLabelReport(**of_texts, gold=gold, probabilities=chances)
    task = types.SimpleNamespace(extra_report_sections=lambda *_: None)
    job = types.SimpleNamespace(history=types.SimpleNamespace(show=lambda name, make: None), global_step=12)
    settings = _SETTINGS(output_dir=str(tmp_path), do_train=True)
    show_scored(task, [], {"dev": judged}, {"eval_f1": 0.5}, job, settings)
    assert [record.getMessage() for record in caplog.records] == [
        "1 label is predicted for every example of dev.tsv, although not all have it: 'film' (1 of 3). Train for more "
        "steps, use `fit_thresholds`, or add examples without such a label."
    ]


def test_a_teacher_that_learned_nothing_is_warned_of(tmp_path, caplog):
    warn_of_teacher(TeacherOptions())
    warn_of_teacher(TeacherOptions(teacher=str(tmp_path)))
    assert not caplog.records
    (tmp_path / "eval_predictions.tsv").write_text("id\tlabel\tprediction\n0\tno\tyes\n1\tyes\tyes\n")
    warn_of_teacher(TeacherOptions(teacher=str(tmp_path / "model.ckpt-10")))
    assert f"{tmp_path}/model.ckpt-10 predicted 'yes' for all examples of its evaluation" in caplog.text
