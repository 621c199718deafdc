"""What a training program shows at its end: error reports of scored examples, and the command that comes next."""

import importlib
import os
import shlex
import types

import numpy as np
import pytest
from absl import flags

from bert_tf.cli import main, program, reporting
from bert_tf.cli.reporting import check_showing, error_reports, show_answers, show_scored, warn_of_teacher
from bert_tf.evaluation.error_reports.labels import MultiLabelReport
from bert_tf.tasks.base import SplitPredictions
from bert_tf.utils.settings import Settings
from tests.evaluation.error_reports.support import choices, shown

PROGRAM = "/some bin/python"


@pytest.fixture
def told(monkeypatch, caplog):
    """Returns a function that gives the lines of a call, the last one as (words, command)."""
    monkeypatch.setattr(reporting.shutil, "which", lambda name: None)
    monkeypatch.setattr(reporting.sys, "executable", PROGRAM)

    def tell(function, **settings):
        caplog.clear()
        with caplog.at_level("INFO", logger="absl"):
            function(Settings(settings), 24)
        where, last = caplog.messages
        words, _, command = last.partition(": ")
        return where, words, shlex.split(command)

    return tell


def _check(command, name):
    """Asserts that the command is one of ours, and returns the settings that its program would have."""
    assert command[:4] == [PROGRAM, "-m", "bert_tf", name] and name in main.PROGRAMS
    values, table = flags.FlagValues(), importlib.import_module(f"bert_tf.cli.{name}").FLAGS
    program.define(values, table)
    assert values([name, *command[4:]]) == [name]
    return program.read_settings(values, [flag.name for flag in table])


def test_what_is_there_is_told(told, tmp_path):
    for name in ("report.html", "eval_results.txt", "vocab.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    where, words, command = told(
        reporting.log_after_fine_tuning, output_dir=os.fspath(tmp_path), export_dir=None, do_export=False
    )
    files = "model.ckpt-24 (model), eval_results.txt (metrics), report.html (report)"
    assert where == f"Files in {tmp_path}: {files}" and words == "To export the model for serving"
    settings = _check(command, "export")
    assert (settings.model, settings.export_dir) == (os.fspath(tmp_path), os.fspath(tmp_path / "export"))


@pytest.mark.parametrize(("export_dir", "served", "name"), [(None, "a run/export", "a run"), ("m/x/", "m/x", "x")])
def test_an_export_is_served(told, export_dir, served, name):
    _, words, command = told(reporting.log_after_fine_tuning, output_dir="a run", export_dir=export_dir, do_export=True)
    settings = _check(command, "serve")
    assert words == "To serve the model"
    assert (settings.model_base_path, settings.model_name) == (os.path.abspath(served), name)


@pytest.mark.parametrize(("export_dir", "name"), [("a run/export", "a run"), ("models/reviews/", "reviews")])
def test_what_export_wrote_is_served(monkeypatch, caplog, export_dir, name):
    monkeypatch.setattr(reporting.shutil, "which", lambda name: None)
    monkeypatch.setattr(reporting.sys, "executable", PROGRAM)
    with caplog.at_level("INFO", logger="absl"):
        reporting.log_after_export(Settings({"model": "a run", "export_dir": export_dir}))
    words, _, command = caplog.messages[0].partition(": ")
    settings = _check(shlex.split(command), "serve")
    assert words == "To serve the model"
    assert (settings.model_base_path, settings.model_name) == (os.path.abspath(export_dir), name)


def test_threads_of_an_export_for_processors_need_not_share_an_operation(told):
    options = {"output_dir": "a run", "export_dir": None, "do_export": True}
    assert _check(told(reporting.log_after_fine_tuning, **options)[2], "serve").tensorflow_intra_op_parallelism == 0
    command = told(reporting.log_after_fine_tuning, **options, export_for="cpu")[2]
    assert _check(command, "serve").tensorflow_intra_op_parallelism == 1


def test_a_pretrained_model_is_fine_tuned(told):
    _, words, command = told(reporting.log_after_pretraining, output_dir="out/")
    settings = _check(command, "run_classifier")
    assert (settings.init_checkpoint, settings.output_dir, settings.do_train) == ("out/", "out-fine-tuned", True)
    assert words == "To fine-tune the model on your own data"


def test_of_a_step_of_a_longer_run_nothing_is_told(monkeypatch, caplog):
    monkeypatch.setenv("BERT_TF_CHILD", "1")
    with caplog.at_level("INFO", logger="absl"):
        reporting.log_after_pretraining(Settings({"output_dir": "out"}), 24)
    assert not caplog.messages


def test_the_command_is_the_one_that_is_at_hand(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting.shutil, "which", lambda name: f"/bin/{name}")
    assert reporting._bert_tf() == ["bert-tf"]
    (tmp_path / "bert-tf").write_text("", encoding="utf-8")
    monkeypatch.setattr(reporting.shutil, "which", lambda name: None)
    monkeypatch.setattr(reporting.sys, "executable", os.fspath(tmp_path / "python"))
    monkeypatch.chdir(tmp_path.parent)
    assert reporting._bert_tf() == [f"{tmp_path.name}/bert-tf"]


def test_what_no_server_takes_is_not_served(told):
    given = {"output_dir": "a", "export_dir": "m", "do_export": True, "export_for": "litert"}
    *_, words, command = told(reporting.log_after_fine_tuning, **given)
    settings = _check(command, "export")
    assert words == "To export the model for serving" and settings.export_dir == os.path.join("a", "export")


# === Showing ===


def test_a_table_that_is_not_written_cannot_be_sorted():
    check_showing(Settings({"sort_predictions": "file", "do_eval": False}))
    check_showing(Settings({"sort_predictions": "errors", "do_eval": True}, ["sort_predictions"]))
    with pytest.raises(ValueError, match="`sort_predictions=errors` requires `do_eval`"):
        check_showing(Settings({"sort_predictions": "errors", "do_eval": False}, ["sort_predictions"]))


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
    settings = Settings({"output_dir": str(tmp_path), "sort_predictions": "errors"})
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
    outcome, settings = SplitPredictions("dev", None, None, np.zeros(2), None), Settings({"output_dir": str(tmp_path)})
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
        settings = Settings({"output_dir": str(tmp_path), "do_train": do_train})
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
    settings = Settings({"output_dir": str(tmp_path), "do_train": True})
    show_scored(task, [], {"dev": judged}, {"eval_f1": 0.5}, job, settings)
    assert [record.getMessage() for record in caplog.records] == [
        "1 label is predicted for every example of dev.tsv, although not all have it: 'film' (1 of 3). Train for more "
        "steps, use `fit_thresholds`, or add examples without such a label."
    ]


def test_a_teacher_that_learned_nothing_is_warned_of(tmp_path, caplog):
    warn_of_teacher(Settings({}))
    warn_of_teacher(Settings({"teacher": str(tmp_path)}))
    assert not caplog.records
    (tmp_path / "eval_predictions.tsv").write_text("id\tlabel\tprediction\n0\tno\tyes\n1\tyes\tyes\n")
    warn_of_teacher(Settings({"teacher": str(tmp_path / "model.ckpt-10")}))
    assert f"{tmp_path}/model.ckpt-10 predicted 'yes' for all examples of its evaluation" in caplog.text
