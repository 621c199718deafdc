"""A grid of real runs: each is made once, and stopped or killed in the midst it comes to the same."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.runs import Point
from bert_tf.utils.logged_runs import LOG_FILE
from tests import tiny
from tests.conftest import ROOT
from tests.experiments.glue.glue_folder import LIMIT_S, TASKS, program, write_glue


def _command(folder, output, seeds="1"):
    return [
        f"--glue_dir={folder}/glue", f"--init_checkpoint={folder}/init", f"--output_dir={output}", f"--seeds={seeds}",
        "--train_batch_size=16", "--learning_rate=1e-3", "--num_train_epochs=3", "--do_predict", "--",
        "--max_seq_length=32", "--deterministic", "--save_checkpoints_steps=5",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder with a small GLUE and a tiny checkpoint."""
    folder = tmp_path_factory.mktemp("glue")
    write_glue(folder / "glue")
    tiny.checkpoint(folder / "init")
    return folder


@pytest.mark.slow
def test_a_grid_is_made_once_and_answers(material):
    output = material / "small"
    command = [f"--tasks={TASKS[1]}", *_command(material, output)]
    done = program(*command)
    assert done.returncode == 0, done.stderr
    (result,) = glue_runs.all_finished(output)
    assert list(result.scores) == ["eval_pearson", "eval_spearman"]
    assert f"pearson {100 * result.scores['eval_pearson']:.2f}, spearman " in done.stderr
    with zipfile.ZipFile(output / "submission.zip") as archive:
        assert archive.namelist() == ["STS-B.tsv"] and len(archive.read("STS-B.tsv").splitlines()) == 7
    before = {path: path.stat().st_mtime_ns for path in result.folder.rglob("*")}
    again = program(f"--compare={output}", *command)
    assert again.returncode == 0 and "1 runs, 1 of them finished already." in again.stderr, again.stderr
    assert "Run 1" not in again.stderr and "sts-b, spearman: " in again.stderr and "p = 1.0000" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in result.folder.rglob("*")} == before


@pytest.mark.slow
def test_a_table_of_one_s_own_with_two_seeds(material):
    output, table = material / "own", {"train_file": "train.csv", "eval_file": "dev.csv", "text_column": "a,b"}
    for name, n in (("train.csv", 32), ("dev.csv", 12)):
        rows = "".join(f"{text},a story,{label}\n" for text, label in tiny.texts(n))
        (material / name).write_text(f"a,b,stars\n{rows}")
    (material / "tables.json").write_text(json.dumps({"stars": {**table, "label_column": "stars"}}))
    own = [f"--tables={material}/tables.json", f"--compare={output}"]
    glue_s = ("--glue_dir", "--do_predict")
    command = [flag for flag in _command(material, output, "1,2") if not flag.startswith(glue_s)]
    done = program(*own[:1], *command)
    assert done.returncode == 0, done.stderr
    assert [list(result.scores) for result in glue_runs.all_finished(output)] == [["eval_accuracy"]] * 2
    again = program(*own, *command)
    assert again.returncode == 0 and "Run 1" not in again.stderr, again.stderr
    constant = "not compared, because models that give one answer to all examples have learned nothing"
    assert f"stars, seeds against seeds: {constant}: 2 of 2 and 2 of 2" in again.stderr, again.stderr


@pytest.mark.slow
def test_killed_and_started_again_it_comes_to_the_same(material):
    """SIGKILL of all processes in the midst of the second run of four; some two minutes on two cores."""
    whole, killed = material / "whole", material / "killed"
    assert program(*_command(material, whole, "1,2")).returncode == 0
    command = [sys.executable, "-m", "bert_tf", "run_glue", *_command(material, killed, "1,2")]
    second = killed / "cola" / Point(16, 1e-3, 3).folder / "seed-2"
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        end = time.monotonic() + LIMIT_S
        while not list(second.glob("model.ckpt-*.index")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.stderr.read()
    first = killed / "cola" / second.parent.name / "seed-1"
    assert glue_runs.finished(first) and not glue_runs.finished(second)
    since = (first / "eval_results.txt").stat().st_mtime_ns
    done = program(*_command(material, killed, "1,2"))
    assert done.returncode == 0 and "4 runs, 1 of them finished already." in done.stderr, done.stderr
    assert (first / "eval_results.txt").stat().st_mtime_ns == since
    assert "Continuing this run from step " in (second / LOG_FILE).read_text()
    scores = [str(path.relative_to(whole)) for path in whole.glob("*/*/*/eval_results.txt")]  # with the loss
    assert len(scores) == 4
    for name in ("results.tsv", "submission.zip", *scores):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    told = [json.loads((folder / "results.json").read_text()) for folder in (killed, whole)]
    assert told[0] == told[1]


@pytest.mark.slow
def test_asked_to_stop_it_stops_its_run_which_saves(material):
    """SIGTERM of `benchmark glue` alone, as a scheduler sends it; half a minute on two cores."""
    output = material / "stopped"
    flags = [f"--tasks={TASKS[0]}", *_command(material, output), "--keep_checkpoints=2"]
    flags = [flag.replace("num_train_epochs=3", "num_train_epochs=1000") for flag in flags]
    command = [sys.executable, "-m", "bert_tf", "run_glue", *flags]
    folder = output / TASKS[0] / Point(16, 1e-3, 1000).folder / "seed-1"
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        end = time.monotonic() + LIMIT_S
        while not list(folder.glob("model.ckpt-*.index")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        process.terminate()
        log = process.stderr.read()
    assert process.returncode == 143 and "Stopped. Run the same command again to resume." in log
    said = (folder / LOG_FILE).read_text()
    assert "SIGTERM: stopped after step " in said and not glue_runs.finished(folder)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # nothing of it lives on
