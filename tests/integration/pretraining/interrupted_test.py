"""A run that is killed, told to stop, or finds a damaged checkpoint ends with the weights of one left alone."""

import os
import pathlib
import re
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.tf1 import TEMPORARY, read_tensors
from bert_tf.training.history import read_history
from tests import scripts
from tests.integration.pretraining import support
from tests.integration.pretraining.run_pretraining_test import VARIANTS

STEPS, EVERY = 150, 7
STEP = re.compile(r"step (\d+)/\d+  loss")
CONTINUED = re.compile(r"Continuing this run from step (\d+): ")
STOPPED = re.compile(r"SIGTERM: stopped after step (\d+)\. Run the same command again to resume\.")


def _flags(material, output):
    return support.arguments(
        material, f"--num_train_steps={STEPS}", f"--save_checkpoints_steps={EVERY}", "--deterministic", "--do_eval",
        f"--eval_file={material}/held_out.tfrecord", "--max_eval_steps=2", f"--output_dir={output}",
    )  # fmt: skip


class Run:
    """A run in mid-flight: its process, its log so far, its output directory."""

    def __init__(self, flags, output: pathlib.Path, log: pathlib.Path):
        self.output, self.log = output, log
        self.process = support.start(flags, stderr=log.open("wb"))
        self._end = time.monotonic() + support.LIMIT_S

    def wait_for(self, happened):
        """Waits until `happened` returns something true; returns that."""
        while not (found := happened()):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < self._end, self.said()
            time.sleep(0.0002)
        return found

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def steps(self) -> list[str]:
        return STEP.findall(self.said())

    def unfinished(self) -> list[str]:
        """Names of what is on the disk in the midst of a save, and after a kill there: it is no checkpoint."""
        found = [path.name for path in self.output.glob("*") if self.output.is_dir()]
        indexed = {name.removesuffix(".index") for name in found}
        data = [name for name in found if ".data-" in name and name.partition(".data-")[0] not in indexed]
        return [name for name in found if name.startswith(TEMPORARY)] + data

    def halt_in_save(self, rng):
        """Lets the run stand still in the midst of a save: at a random moment of one, if it is not over by then."""
        before = set(self.unfinished())  # of an earlier kill: goes with the next save
        while True:
            self.wait_for(lambda: set(self.unfinished()) - before)
            time.sleep(rng.uniform(0, 0.004))
            self.process.send_signal(signal.SIGSTOP)
            _, status = os.waitpid(self.process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), self.said()
            if set(self.unfinished()) - before:
                return
            self.process.send_signal(signal.SIGCONT)

    def end(self, number):
        """Sends the signal, and waits for the end."""
        self.process.send_signal(number)
        self.process.wait(support.LIMIT_S)


def _kill(flags, output, log, rng, in_save):
    """Kills a run at a random step, or at a random moment of one of its saves; returns what it left unfinished."""
    run = Run(flags, output, log)
    if in_save:
        run.halt_in_save(rng)
    else:
        lines = rng.integers(1, 4)
        run.wait_for(lambda: len(run.steps()) >= lines)
        time.sleep(rng.uniform(0, 0.05))
    run.end(signal.SIGKILL)
    assert run.process.returncode == -signal.SIGKILL, run.said()
    return run.unfinished(), run.said()


def _check_whole(output):
    """Every checkpoint by name, and the one that TensorFlow would take, can be read to the last tensor."""
    store = CheckpointManager(output)
    for step in store.steps():
        read_tensors(store.prefix(step))
    if named := tf.train.latest_checkpoint(str(output)):
        read_tensors(named)
    latest = store.latest(strict=True)
    return latest[0] if latest else None


def _check_continued(log, step):
    """The log says that a run went on from `step`, or that it began, where there was no checkpoint."""
    assert [int(found) for found in CONTINUED.findall(log)] == ([] if step is None else [step]), log


def _history(output):
    """Returns what must be the same of all lines but those of starts."""
    unlike = {"kind", "step", "time", "examples_per_second", "tokens_per_second"}
    lines = [line for line in read_history(output / "history.jsonl") if line["kind"] != "start"]
    return [(line["kind"], line["step"], {k: v for k, v in line.items() if k not in unlike}) for line in lines]


@pytest.fixture(scope="module")
def whole(material, tmp_path_factory):
    """The output of a run that was left alone."""
    folder = tmp_path_factory.mktemp("interrupted")
    scripts.run(_flags(material, folder / "whole"), support.SCRIPT)
    return folder / "whole"


@pytest.mark.slow
@pytest.mark.usefixtures("all_material")
@pytest.mark.parametrize("name", ["ALBERT", "RoBERTa", "ERNIE"])
def test_an_objective_that_draws_its_masks_goes_on_after_a_kill(material, tmp_path, name):
    records, objective, _ = VARIANTS[name]
    changes = [flag.replace("HOME", str(material)) for flag in objective]

    def flags(output):
        usual = (f"--num_train_steps={STEPS}", f"--save_checkpoints_steps={EVERY}", "--deterministic", "--do_eval")
        return support.arguments(
            material, *usual, "--max_eval_steps=2", f"--output_dir={output}", *changes, records=records
        )

    output, rng = tmp_path / "killed", np.random.default_rng(0)
    for number in range(2):
        _kill(flags(output), output, tmp_path / "log", rng, in_save=number == 0)
    there = _check_whole(output)
    assert there < STEPS
    _check_continued(scripts.run(flags(output), support.SCRIPT), there)
    scripts.run(flags(tmp_path / "whole"), support.SCRIPT)
    _check_same(output, tmp_path / "whole")


def _check_same(output, whole):
    scripts.assert_same_tensors(whole / f"model.ckpt-{STEPS}", output / f"model.ckpt-{STEPS}")
    assert (output / "eval_results.txt").read_bytes() == (whole / "eval_results.txt").read_bytes()


@pytest.mark.slow
def test_ten_kills_and_three_sigterms(material, whole, tmp_path):
    rng, output, log = np.random.default_rng(0), tmp_path / "killed", tmp_path / "log"
    flags, in_midst, there = _flags(material, output), [], None
    for number in range(10):
        left, said = _kill(flags, output, log, rng, in_save=number % 2 == 0)
        if "loss" in said or CONTINUED.search(said):
            _check_continued(said, there)
        in_midst.append(bool(left))
        there = _check_whole(output)
    for _ in range(3):
        run = Run(flags, output, log)
        lines = rng.integers(1, 4)
        run.wait_for(lambda run=run, lines=lines: len(run.steps()) >= lines)
        run.end(signal.SIGTERM)
        assert run.process.returncode == 143, run.said()
        _check_continued(run.said(), there)
        there = _check_whole(output)
        assert STOPPED.findall(run.said()) == [str(there)]
    assert sum(in_midst) >= 5 and there < STEPS
    _check_continued(scripts.run(flags, support.SCRIPT), there)
    _check_same(output, whole)
    assert not [path for path in output.iterdir() if path.name.startswith(TEMPORARY)]
    assert _history(output) == _history(whole)
    assert [step for kind, step, _ in _history(whole) if kind == "eval"] == [*range(EVERY, STEPS, EVERY), STEPS]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--objective=electra", "--generator_size=0.5"]], ids=" ".join)
def test_another_objective_is_killed(material, tmp_path, flags):
    output = tmp_path / "killed"
    scripts.run([*_flags(material, tmp_path / "whole"), *flags], support.SCRIPT)
    run = Run([*_flags(material, output), *flags], output, tmp_path / "log")
    run.wait_for((output / f"model.ckpt-{3 * EVERY}.index").exists)
    run.end(signal.SIGKILL)
    there = _check_whole(output)
    assert 2 * EVERY <= there < STEPS, run.said()
    _check_continued(scripts.run([*_flags(material, output), *flags], support.SCRIPT), there)
    _check_same(output, tmp_path / "whole")


@pytest.mark.slow
def test_checkpoints_cut_by_hand_are_refused_by_name_and_the_one_before_them_is_used(material, whole, tmp_path):
    output = tmp_path / "cut"
    shutil.copytree(whole, output)
    *_, before, cut, emptied, last = CheckpointManager(output).steps()
    assert last == STEPS
    for path in output.glob(f"model.ckpt-{last}.*"):  # as if the run had ended between two checkpoints
        path.unlink()
    (output / f"model.ckpt-{emptied}.index").write_bytes(b"")
    (data,) = output.glob(f"model.ckpt-{cut}.data-*")
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size * 2 // 3)
    log = scripts.run(_flags(material, output), support.SCRIPT)
    for step in (cut, emptied):
        assert re.search(rf"Skipped an incomplete checkpoint: \S*model\.ckpt-{step} is not a complete TF1", log), log
    _check_continued(log, before)
    _check_same(output, whole)
