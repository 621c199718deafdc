"""Students on two devices, and students that are killed: they learn what they would have learned otherwise."""

import json

import numpy as np
import pytest

from tests import processes, scripts, tiny
from tests.integration.pretraining import support

EVERY = 7


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["records", "task"])
def test_two_devices_do_what_one_does(kind):
    done = processes.run("-m", "tests.tasks.teachers.two_devices", kind)
    assert done.returncode == 0, done.stderr[-4000:]
    (one, single), (two, both) = json.loads(done.stdout).values()
    assert (single, both) == (1, 2) and one[-1] < one[0]
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)


def _check_killed(flags, folder, script, steps):
    """A run that is killed at its middle ends with the weights of one left alone."""
    outputs = [[*flags, f"--output_dir={folder / name}"] for name in ("whole", "killed")]
    scripts.run(outputs[0], script)
    killed = scripts.run_and_kill(outputs[1], steps // 2, script)
    scripts.check_continues(scripts.run(outputs[1], script), killed, EVERY)
    last = f"model.ckpt-{steps}"
    scripts.assert_same_tensors(folder / "whole" / last, folder / "killed" / last)
    results = [(folder / name / "eval_results.txt").read_bytes() for name in ("whole", "killed")]
    assert results[0] == results[1]


@pytest.mark.slow
def test_a_killed_student_of_records_ends_as_one_left_alone(tmp_path):
    material = support.write_material(tmp_path, ("alone",))
    tiny.checkpoint(tmp_path / "teacher", hidden_size=48)
    flags = support.arguments(
        material, "--num_train_steps=150", f"--save_checkpoints_steps={EVERY}", "--deterministic", "--do_eval",
        "--objective=distillation", f"--teacher={tmp_path}/teacher", "--max_eval_steps=2",
        "--distillation_losses=query_relations,key_relations,value_relations,hidden", "--relation_heads=2",
        records="alone",
    )  # fmt: skip
    _check_killed(flags, tmp_path, support.SCRIPT, 150)


@pytest.mark.slow
def test_a_killed_student_of_a_task_ends_as_one_left_alone(tmp_path):
    base, train = tiny.checkpoint(tmp_path / "base"), tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(96))
    flags = ["--do_train", f"--train_file={train}", f"--init_checkpoint={base}", "--max_seq_length=16"]
    scripts.run([*flags, "--num_train_epochs=1", f"--output_dir={tmp_path}/teacher"])
    flags += ["--num_train_epochs=50", f"--save_checkpoints_steps={EVERY}", "--deterministic", "--do_eval", "--seed=1"]
    flags += [f"--eval_file={train}", f"--teacher={tmp_path}/teacher"]
    _check_killed(flags, tmp_path, "run_classifier.py", 150)
