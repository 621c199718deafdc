"""Whole runs with tiny networks: stopped and killed they end as others do, and programs take the result."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints.tf1 import read_tensors
from tests import processes, tiny
from tests.conftest import ROOT
from tests.pretraining import families
from tests.pretraining.quick.tiny_program import MINUTES, STEPS

_STARTS, _ENDS = ("ba", "de", "fi", "go", "lu", "mo"), ("ka", "ne", "pi", "ri", "so", "tu", "va", "xe")
WORDS = [start + end for start in _STARTS for end in _ENDS]  # more than the network is wide
KEPT = {"work", "plan.json", "steps.json"}  # what is there when the training begins
LIMIT_S = 1800


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus, held-out text and a teacher."""
    folder = tmp_path_factory.mktemp("small")
    for name, seed, number in (("corpus", 0, 400), ("held_out", 1, 60)):
        rng = np.random.default_rng(seed)
        (folder / name).mkdir()
        starts, lengths = rng.integers(len(WORDS), size=number), rng.integers(4, 12, size=number)
        sentences = (" ".join((WORDS * 2)[start : start + n]) for start, n in zip(starts, lengths, strict=True))
        (folder / name / "a.txt").write_text("".join(f"{sentence}.\n\n" for sentence in sentences))
    tiny.checkpoint(folder / "teacher", num_hidden_layers=3)
    return folder


def _words(folder, output, *more):
    flags = [f"--input_file={folder}/corpus", f"--output_dir={folder / output}", f"--minutes={MINUTES}", *more]
    return ["-m", "tests.pretraining.quick.tiny_program", *flags]


def _run(folder, output, *more):
    done = processes.run(*_words(folder, output, *more))
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _end(words, output, after, number, alone):
    """Sends a signal to a run, or to all of its processes, once it has a checkpoint later than `after`."""
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    ) as process:  # fmt: skip
        end = time.monotonic() + LIMIT_S
        while _last_step(output) <= after:
            assert process.poll() is None and time.monotonic() < end, process.stdout.read()
            time.sleep(0.01)
        (os.kill if alone else os.killpg)(process.pid, number)
        said = process.stdout.read()
    return process.returncode, said


def _last_step(output):
    return max((int(path.stem.split("-")[1]) for path in output.glob("model.ckpt-*.index")), default=-1)


@pytest.mark.slow
def test_stopped_and_killed_it_ends_as_one_left_alone(home):
    """Some minutes on two cores."""
    more = [f"--eval_file={home}/held_out", "--vocab_size=100", "--precision=float32"]
    output, twin = home / "killed", home / "twin"
    status, said = _end(_words(home, "killed", *more), output, 0, signal.SIGTERM, alone=True)
    assert status == 143 and said.count("Stopped. Run the same command again to resume.") == 1, said
    assert "SIGTERM: stopped after step " in said
    stopped = _last_step(output)
    assert 0 < stopped < STEPS
    plan = (output / "plan.json").read_bytes()
    shutil.copytree(output, twin, ignore=lambda folder, names: set(names) - KEPT if folder == str(output) else ())
    assert _end(_words(home, "killed", *more), output, stopped, signal.SIGKILL, alone=False)[0] == -signal.SIGKILL
    assert _last_step(output) < STEPS
    resumed, whole = _run(home, "killed", *more), _run(home, "twin", *more)
    assert "Continuing this run from step " in resumed.stderr and "Continuing this run" not in whole.stderr
    assert resumed.stdout.count("\n$ ") == 1
    assert resumed.stderr.count("run_classifier") == 1 and f"--init_checkpoint={output}" in resumed.stderr
    assert plan == (output / "plan.json").read_bytes()
    _check_same_weights(output, twin)
    assert "masked_lm_accuracy = " in (output / "eval_results.txt").read_text()
    assert not (output / "work" / "calibration").exists()
    _check_that_programs_take_it(home, output)
    before = {path: path.stat().st_mtime_ns for path in output.rglob("model.ckpt*")}
    again = _run(home, "killed", *more)
    assert again.stdout.count("\n$ ") == 0 and again.stderr.count("run_classifier") == 1
    assert {path: path.stat().st_mtime_ns for path in output.rglob("model.ckpt*")} == before


def _check_same_weights(one, other):
    """All that a checkpoint holds, but for the settings, which name the folders."""
    one, other = (read_tensors(os.fspath(folder / f"model.ckpt-{STEPS}")) for folder in (one, other))
    assert one.keys() == other.keys() and "training/settings" in one
    for name in one.keys() - {"training/settings"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def _check_that_programs_take_it(home, output):
    assert bert_tf.load(output).config.norm_first
    rows = tiny.write_tsv(home / "train.tsv", [(" ".join(WORDS[n : n + 4]), str(n % 2)) for n in range(24)])
    done = processes.run(
        "-m", "bert_tf", "run_classifier", f"--init_checkpoint={output}", f"--train_file={rows}",
        f"--eval_file={rows}", f"--output_dir={home}/fine_tuned", "--do_train", "--do_eval", "--num_train_epochs=1",
        "--train_batch_size=8", "--max_seq_length=16",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_student_learns_from_its_teacher(home):
    """A minute or two on two cores."""
    _run(home, "student", f"--teacher={home}/teacher", "--precision=float32")
    student = bert_tf.load(home / "student")
    assert student.config.num_hidden_layers == 2 and student.tokenizer.vocab == list(tiny.VOCAB)
    assert _last_step(home / "student") == STEPS


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [name for name in families.FAMILIES if name != "bert"])
def test_a_small_encoder_has_the_family_and_the_tokenizer_of_another_model(home, model_type):
    """A minute or two on two cores."""
    (home / model_type).mkdir()
    model = families.model_directory(home / model_type, model_type)
    # More distinct tokens than the network is wide.
    letters = np.random.default_rng(0).choice([*"abcdefghijklmnopqrstuvwxyz0123456789"], (400, 9))
    text = "".join(f"{' '.join([*row, *words])}.\n\n" for row, words in zip(letters, [WORDS[:5]] * 400, strict=True))
    (home / model_type / "text.txt").write_text(text, encoding="utf-8")
    more = [f"--input_file={home / model_type}/text.txt", f"--tokenizer={model}", "--precision=float32"]
    _run(home, f"{model_type}/small", *more)
    small, other = bert_tf.load(home / model_type / "small"), bert_tf.load(model)
    assert small.config.model_type == model_type and small.config.norm_first and small.config.hidden_size == 32
    assert small.tokenizer.vocab == other.tokenizer.vocab
    assert small.tokenizer.tokenize(WORDS).to_list() == other.tokenizer.tokenize(WORDS).to_list()
    assert _last_step(home / model_type / "small") == STEPS


@pytest.mark.slow
def test_a_student_of_another_family(home):
    """A minute or two on two cores."""
    (home / "taught").mkdir()
    model = families.model_directory(home / "taught", "roberta", num_hidden_layers=3)
    _run(home, "taught/small", f"--teacher={model}", "--precision=float32")
    student = bert_tf.load(home / "taught" / "small")
    assert student.config.model_type == "roberta" and student.config.num_hidden_layers == 2
