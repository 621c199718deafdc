"""bert-tf tune: what it refuses before the first trial, and a search that is killed and goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bert_tf.cli import tune
from bert_tf.cli.command_runner import parse_flags
from bert_tf.evaluation.results import read_results, write_results
from bert_tf.experiments.child_runs import FINISHED_FILE
from bert_tf.experiments.tuning import tuner
from bert_tf.utils import logged_runs
from bert_tf.utils.settings import Settings
from tests import tiny
from tests.conftest import ROOT

LIMIT_S = 1800  # after which a search hangs


def _settings(folder, **given):
    values = {flag.name: flag.default for flag in tune.FLAGS}
    mine = {"search": "learning_rate=1e-4,1e-3", "tuning_metric": "eval_accuracy", "output_dir": os.fspath(folder)}
    return Settings({**values, **mine, **given}, {*mine, *given})


@pytest.mark.parametrize(
    ("given", "words", "message"),
    [
        ({}, [], r"The first argument must be the command to tune: one of train classifier, .*got none. Example"),
        ({}, ["run_pretraining"], r"The first argument must be .*got run_pretraining"),
        ({}, ["run_classifier", "--trian_file=x"], "Flags of `train classifier`: Unknown flag --trian_file. Did"),
        ({}, ["run_classifier", "--do_eval"], r"Flags after `--` must be those .* --do_eval, which `tune` sets itself"),
        ({}, ["run_classifier", "--learning_rate=1"], r"got --learning_rate=1, which `tune` sets itself"),
        ({}, ["run_classifier", "train.tsv"], r"After `--`, every flag must be one word"),
        ({"search": "learning_rate=fast"}, ["run_classifier"], "`train classifier`: --learning_rate must .*got fast"),
        ({"search": "learning_rate=-1,1"}, ["run_squad"], "Flags of `train qa`: --learning_rate must .*got -1"),
        ({"search": "output_dir=a,b"}, ["run_tagger"], r"`search` cannot vary 'output_dir' .* or tune sets it itself"),
        ({"search": "save_checkpoints_steps=1,2"}, ["run_tagger"], r"cannot vary 'save_checkpoints_steps' between"),
        ({"search": "learning_rate=-1..1", "trials": 3}, ["run_squad"], "`train qa`: --learning_rate must .*got -1"),
        ({"tuning_metric": "eval_bleu"}, ["run_classifier"], r"`tuning_metric` must be a metric in eval_results\.txt"),
    ],
)
def test_what_cannot_be_searched_is_refused_and_nothing_written(tmp_path, given, words, message):
    with pytest.raises(ValueError, match=message):
        tune._search(_settings(tmp_path / "out", **given), *tune._program(words))
    assert not (tmp_path / "out").exists()


def test_a_rate_is_a_number_or_auto():
    (rate,) = (flag for flag in tune._program(["run_classifier"])[1] if flag.name == "learning_rate")
    assert parse_flags("p", [rate], ["--learning_rate=auto"]).learning_rate == "auto"
    settings = parse_flags("p", [rate], ["--learning_rate=3e-5"])
    assert settings.learning_rate == 3e-5 and parse_flags("p", [rate], []).learning_rate == 5e-5
    message = "Flags of `p`: --learning_rate must be a non-negative number or auto; got "
    for wrong in ("-1", "automatic", ""):
        with pytest.raises(ValueError, match=message):
            parse_flags("p", [rate], [f"--learning_rate={wrong}"])


def test_a_search_stays_the_search_that_it_is(tmp_path, monkeypatch, capsys):
    def execute(program, flags, folder, claim):
        folder.mkdir(parents=True)
        write_results(str(folder), {"accuracy": float(folder.name[-1])}, 10)
        return True

    def search(*flags, **given):
        tune._search(_settings(tmp_path, **given), *tune._program(["run_classifier", *flags]))
        return capsys.readouterr().out

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    monkeypatch.setattr(tuner, "write_tuning_report", lambda *_: None)
    assert search("--seed=1") == (
        f"bert-tf train classifier --output_dir={tmp_path}/trial-2 --do_train --do_eval --learning_rate=1e-3 "
        "--save_checkpoints_steps=200 --keep_checkpoints=1 --seed=1\n"
    )
    others = {"search": "learning_rate=1e-4,1e-2"}, {"trials": 1}, {"stages": 2}
    for flags, given in ((["--seed=2"], {}), *((["--seed=1"], other) for other in others)):
        with pytest.raises(ValueError, match=r"with the settings .* before, .* now\. Name another `output_dir`\."):
            search(*flags, **given)
    (tmp_path / "train.tsv").write_text("a\t0\n")
    search("--seed=1", f"--train_file={tmp_path}/train.tsv", output_dir=str(tmp_path / "other"))
    (tmp_path / "train.tsv").write_text("a\t1\n")
    told = rf"Changed: {tmp_path}/train.tsv: '4 bytes, SHA-256 \w+' before, '4 bytes, SHA-256 \w+' now\. Name"
    with pytest.raises(ValueError, match=told):
        search("--seed=1", f"--train_file={tmp_path}/train.tsv", output_dir=str(tmp_path / "other"))


def test_a_tie_is_told_in_the_log(tmp_path, monkeypatch, caplog):
    def execute(program, flags, folder, claim):
        folder.mkdir(parents=True)
        write_results(str(folder), {"accuracy": 0.62}, 10)
        return True

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    monkeypatch.setattr(tuner, "write_tuning_report", lambda *_: None)
    tune._search(_settings(tmp_path), *tune._program(["run_classifier"]))
    assert "Tied for the best: trial 1, trial 2. The first is used; eval_accuracy is the same." in caplog.text


def test_where_all_trials_fail_it_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(logged_runs, "execute_resumable", lambda *_: False)
    monkeypatch.setattr(tuner, "write_tuning_report", lambda *_: None)
    with pytest.raises(ValueError, match=r"No trial succeeded; 2 failed. See their logs"):
        tune._search(_settings(tmp_path), *tune._program(["run_classifier"]))


def _command(material, output):
    return [
        sys.executable, "-m", "bert_tf", "tune", "run_classifier", f"--output_dir={output}", "--trials=2", "--stages=2",
        "--search=learning_rate=1e-4..1e-2;train_batch_size=8,16", "--tuning_metric=eval_accuracy", "--",
        f"--train_file={material}/train.tsv", f"--eval_file={material}/dev.tsv", "--num_train_epochs=4",
        f"--init_checkpoint={material}/init", "--max_seq_length=32", "--deterministic", "--save_checkpoints_steps=5",
        "--seed=1",
    ]  # fmt: skip


@pytest.mark.slow
def test_killed_and_started_again_it_goes_on(tmp_path):
    """SIGKILL of all processes in the midst of the second trial; a minute on two cores."""
    tiny.checkpoint(tmp_path / "init")
    for seed, (name, n) in enumerate((("train", 96), ("dev", 30))):
        tiny.write_tsv(tmp_path / f"{name}.tsv", tiny.texts(n, seed))
    out = tmp_path / "out"
    command, second = _command(tmp_path, out), out / "stage-1" / "trial-2"
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        end = time.monotonic() + LIMIT_S
        while not list(second.glob("model.ckpt-*.index")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.stderr.read()
    first = out / "stage-1" / "trial-1"
    assert (first / FINISHED_FILE).exists() and not (second / FINISHED_FILE).exists()
    since = (first / "eval_results.txt").stat().st_mtime_ns
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0 and "2 trials, 1 of them finished already." in done.stderr, done.stderr
    assert (first / "eval_results.txt").stat().st_mtime_ns == since
    assert "Continuing this run from step " in (second / logged_runs.LOG_FILE).read_text()
    scores = [read_results(folder)["eval_accuracy"] for folder in (first, second)]
    better = 1 + scores.index(max(scores))
    best = out / "stage-2" / f"trial-{better}"
    assert [path.parent.name for path in out.glob("stage-2/*/eval_results.txt")] == [best.name]
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"bert-tf train classifier --output_dir={best} --do_train --do_eval --learning_rate=")
    assert json.loads((out / "tune.json").read_text())["program"] == "run_classifier"
    assert {path.parent for path in out.glob("*/*/model.ckpt-*.index")} == {best}
    assert "Stage 2, all of the epochs" in (out / "report.html").read_text()
