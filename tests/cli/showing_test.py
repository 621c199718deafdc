"""What a program shows of scored examples, whatever the task."""

import types

import numpy as np
import pytest

from bert_tf.cli.reporting import check_showing, show_answers, show_scored, warn_of_teacher
from bert_tf.tasks.base import SplitPredictions
from bert_tf.utils.settings import Settings
from tests.evaluation.error_reports.support import choices


def test_a_table_that_is_not_written_cannot_be_sorted():
    check_showing(Settings({"sort_predictions": "file", "do_eval": False}))
    check_showing(Settings({"sort_predictions": "errors", "do_eval": True}, ["sort_predictions"]))
    with pytest.raises(ValueError, match="`sort_predictions` must come with `do_eval`"):
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
    show_scored(task, outcomes, {"eval_accuracy": 0.5, "eval_accuracy_mismatched": 0.5}, job, settings)
    names = ["eval_predictions.tsv", "eval_predictions_mismatched.tsv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    lines = (tmp_path / "eval_predictions_mismatched.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["id", "id1", "id0"]
    assert [*shown] == ["eval", "more"]
    assert "All " not in caplog.text
    assert shown["eval"].count("What it does on") == 2 and "step 1,200" in shown["eval"]


def test_a_model_that_always_gives_one_answer_is_warned_of_in_the_log(tmp_path, caplog):
    judged = choices([0, 1], [[0.9, 0.1], [0.8, 0.2]], ["no", "yes"])
    task = types.SimpleNamespace(error_report=lambda outcome: judged, extra_report_sections=lambda *_: None)
    job = types.SimpleNamespace(history=types.SimpleNamespace(show=lambda name, make: None), global_step=12)
    outcome, settings = SplitPredictions("dev", None, None, np.zeros(2), None), Settings({"output_dir": str(tmp_path)})
    show_scored(task, [outcome], {"eval_accuracy": 0.5}, job, settings)
    show_answers(task, outcome, {"accuracy": 0.5}, job)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [judged.warning] * 2 and judged.warning.startswith("All 2 answers on dev.tsv are the label 'no'")


def test_a_teacher_that_learned_nothing_is_warned_of(tmp_path, caplog):
    warn_of_teacher(Settings({}))
    warn_of_teacher(Settings({"teacher": str(tmp_path)}))
    assert not caplog.records
    (tmp_path / "eval_predictions.tsv").write_text("id\tlabel\tprediction\n0\tno\tyes\n1\tyes\tyes\n")
    warn_of_teacher(Settings({"teacher": str(tmp_path / "model.ckpt-10")}))
    assert f"{tmp_path}/model.ckpt-10 answered 'yes' to all examples that it was scored on" in caplog.text
