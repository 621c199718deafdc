"""The last lines of a training command's log: its files, and the command that comes next."""

import dataclasses
import os
import shlex

import pytest
from absl import flags

from bert_tf.cli import command_runner, commands, next_command
from bert_tf.cli.export import ExportCommandSettings
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.options import RunOptions

PROGRAM = "/some bin/python"
FINE_TUNING = fine_tuning_settings(RunOptions)


@pytest.fixture
def told(monkeypatch, caplog):
    """Returns a function that gives the lines of a call, the last one as (words, command)."""
    monkeypatch.setattr(next_command.shutil, "which", lambda name: None)
    monkeypatch.setattr(next_command.sys, "executable", PROGRAM)

    def tell(function, run):
        caplog.clear()
        with caplog.at_level("INFO", logger="absl"):
            function(run, 24)
        where, last = caplog.messages
        words, _, command = last.partition(": ")
        return where, words, shlex.split(command)

    return tell


def _check(command, name):
    """Asserts that the command is one of ours, and returns the settings that its program would have."""
    program, typed, words = commands.find(command[3:])
    assert command[:3] == [PROGRAM, "-m", "bert_tf"] and program == name and typed == commands.command_name(name)
    values, table = flags.FlagValues(), commands.load_command(name).FLAGS
    command_runner.define(values, table)
    assert values([name, *words]) == [name]
    return command_runner.read_settings(values, [flag.name for flag in table])


def test_what_is_there_is_told(told, tmp_path):
    for name in ("report.html", "eval_results.txt", "vocab.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    where, words, command = told(next_command.log_after_fine_tuning, FINE_TUNING(output_dir=os.fspath(tmp_path)))
    files = "model.ckpt-24 (model), eval_results.txt (metrics), report.html (report)"
    assert where == f"Files in {tmp_path}: {files}" and words == "To export the model for serving"
    settings = _check(command, "export")
    assert (settings.model, settings.export_dir) == (os.fspath(tmp_path), os.fspath(tmp_path / "export"))


@pytest.mark.parametrize(("export_dir", "served", "name"), [(None, "a run/export", "a run"), ("m/x/", "m/x", "x")])
def test_an_export_is_served(told, export_dir, served, name):
    run = FINE_TUNING(output_dir="a run", export_dir=export_dir, do_export=True)
    _, words, command = told(next_command.log_after_fine_tuning, run)
    settings = _check(command, "serve")
    assert words == "To serve the model"
    assert (settings.model_base_path, settings.model_name) == (os.path.abspath(served), name)


@pytest.mark.parametrize(("export_dir", "name"), [("a run/export", "a run"), ("models/reviews/", "reviews")])
def test_what_export_wrote_is_served(monkeypatch, caplog, export_dir, name):
    monkeypatch.setattr(next_command.shutil, "which", lambda name: None)
    monkeypatch.setattr(next_command.sys, "executable", PROGRAM)
    with caplog.at_level("INFO", logger="absl"):
        next_command.log_after_export(ExportCommandSettings(model="a run", export_dir=export_dir))
    words, _, command = caplog.messages[0].partition(": ")
    settings = _check(shlex.split(command), "serve")
    assert words == "To serve the model"
    assert (settings.model_base_path, settings.model_name) == (os.path.abspath(export_dir), name)


def test_threads_of_an_export_for_processors_need_not_share_an_operation(told):
    run = FINE_TUNING(output_dir="a run", do_export=True)
    assert _check(told(next_command.log_after_fine_tuning, run)[2], "serve").tensorflow_intra_op_parallelism == 0
    command = told(next_command.log_after_fine_tuning, dataclasses.replace(run, export_for="cpu"))[2]
    assert _check(command, "serve").tensorflow_intra_op_parallelism == 1


def test_a_pretrained_model_is_fine_tuned(told):
    _, words, command = told(next_command.log_after_pretraining, "out/")
    settings = _check(command, "run_classifier")
    assert (settings.init_checkpoint, settings.output_dir, settings.do_train) == ("out/", "out-fine-tuned", True)
    assert words == "To fine-tune the model on your own data"


def test_of_a_step_of_a_longer_run_nothing_is_told(monkeypatch, caplog):
    monkeypatch.setenv("BERT_TF_CHILD", "1")
    with caplog.at_level("INFO", logger="absl"):
        next_command.log_after_pretraining("out", 24)
    assert not caplog.messages


def test_the_command_is_the_one_that_is_at_hand(monkeypatch, tmp_path):
    monkeypatch.setattr(next_command.shutil, "which", lambda name: f"/bin/{name}")
    assert next_command._bert_tf() == ["bert-tf"]
    (tmp_path / "bert-tf").write_text("", encoding="utf-8")
    monkeypatch.setattr(next_command.shutil, "which", lambda name: None)
    monkeypatch.setattr(next_command.sys, "executable", os.fspath(tmp_path / "python"))
    monkeypatch.chdir(tmp_path.parent)
    assert next_command._bert_tf() == [f"{tmp_path.name}/bert-tf"]


def test_what_no_server_takes_is_not_served(told):
    run = FINE_TUNING(output_dir="a", export_dir="m", do_export=True, export_for="litert")
    *_, words, command = told(next_command.log_after_fine_tuning, run)
    settings = _check(command, "export")
    assert words == "To export the model for serving" and settings.export_dir == os.path.join("a", "export")
