"""A task with a teacher: its loss by hand, `train classifier` with --teacher, on two devices, and killed."""

import json
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import load_description, save_description
from bert_tf.checkpoints.tf1 import read_tensors, write_tf1
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.fine_tuning_teacher import with_teacher
from bert_tf.tasks.options import TeacherOptions
from bert_tf.tasks.registry import save_task
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.training.history import read_history
from tests import processes, scripts, tiny
from tests.harness import randomize
from tests.integration.pretraining import support
from tests.integration.pretraining.support import results
from tests.scripts import run_programs

pytestmark = pytest.mark.slow

LABELS = ["bad", "good", "so-so"]
FEATURES = ("input_ids", "input_mask", "segment_ids")


def _write(folder, task, swapped=None):
    """Writes a trained model with random weights; `swapped` gives its outputs another order."""
    keras.utils.set_random_seed(3)
    model = task.build_model()
    randomize(model, 3)
    if swapped:
        for variable in model.variables:
            if variable.path.startswith("classifier/"):
                variable.assign(np.asarray(variable)[swapped])
    tokenizer = load_description([folder.parent / "base"]).tokenizer
    save_description(folder, task.config, tokenizer, task.labels)
    save_task(folder, TrainedTask(task, ("text",), 16))
    write_tf1(os.fspath(folder / "bert_model.ckpt"), model.variables)
    return model


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with `base`, to start from, and models that teach."""
    home = tmp_path_factory.mktemp("teachers")
    tiny.checkpoint(home / "base", dropout=0.0)
    config = tiny.config(hidden_size=16, num_hidden_layers=2)
    _write(home / "teacher", ClassificationTask(config, 3, labels=LABELS))
    order = [2, 0, 1]
    _write(home / "swapped", ClassificationTask(config, 3, labels=[LABELS[n] for n in order]), order)
    _write(home / "tagger", TaggingTask(config, ["B-X", "I-X", "O"]))
    _write(home / "other", ClassificationTask(config, 2, labels=["no", "yes"]))
    names = [LABELS[n % 3] for n in range(24)]
    tiny.write_tsv(home / "train.tsv", [(text, name) for (text, _), name in zip(tiny.texts(24), names, strict=True)])
    return home


def _taught(home, name):
    task = ClassificationTask(tiny.config(), 3, labels=LABELS)
    options = TeacherOptions(teacher=os.fspath(home / name), distillation_weight=0.25, do_train=True, max_seq_length=16)
    return task, *with_teacher(task, load_description([home / "base"]), options)


@pytest.fixture(scope="module")
def taught(home):
    """A task, the same with a teacher, and what of that decides the result."""
    return _taught(home, "teacher")


def _batch():
    rows = next(iter(tiny.batches(tiny.tokenized(8), 8)))
    return {name: tf.constant(values) for name, values in rows.items()}


def test_the_loss_is_that_of_the_labels_and_that_of_the_teacher(home, taught):
    task, taught, identity = taught
    model, batch = task.build_model(), _batch()
    teacher = ClassificationTask(tiny.config(hidden_size=16, num_hidden_layers=2), 3, labels=LABELS).build_model()
    assign_weights(home / "teacher", teacher.variables)
    inputs = {name: batch[name] for name in FEATURES}
    outputs, answers = model(inputs), teacher(inputs)
    batch["is_real_example"] = tf.constant([1, 1, 1, 0, 1, 1, 1, 1], tf.float32)
    far = task.distillation_losses(outputs, answers, batch, 2.0).numpy()
    batch |= taught.extra_targets(batch)
    parts = taught.loss_parts(outputs, batch, taught.loss_normalizers(batch))
    own = task.loss(outputs, batch, task.loss_normalizers(batch))
    assert float(parts["label_loss"]) == pytest.approx(float(own), rel=1e-6)
    assert float(parts["teacher_loss"]) == pytest.approx(np.delete(far, 3).mean(), rel=1e-4)
    loss = float(taught.loss(outputs, batch, taught.loss_normalizers(batch)))
    assert loss == pytest.approx(0.75 * float(parts["label_loss"]) + 0.25 * float(parts["teacher_loss"]), rel=1e-6)
    assert re.fullmatch(r"SHA-256 \w{16}", identity["teacher"]) and identity["distillation_weight"] == 0.25


def test_labels_are_known_by_their_names(home, taught):
    batch, (task, one, identity), (_, other, others) = _batch(), taught, _taught(home, "swapped")
    outputs, denominators = task.build_model()({name: batch[name] for name in FEATURES}), task.loss_normalizers(batch)
    parts = [
        float(each.loss_parts(outputs, batch | each.extra_targets(batch), denominators)["teacher_loss"])
        for each in (one, other)
    ]
    assert parts[0] == pytest.approx(parts[1], rel=1e-5) and identity["teacher"] != others["teacher"]


BAD = {
    "another task": (["--teacher=HOME/tagger"], r"for the student's task, classification\. HOME/tagger is for tagging"),
    "other labels": (
        ["--teacher=HOME/other"],
        r"--teacher must have the student's labels, bad, good, so-so\. HOME/other has no, yes; use",
    ),
    "no trained model": (["--teacher=HOME/base"], r"must have task\.json, .* HOME/base does not have this"),
    "nothing to teach": (["--distillation_weight=1"], r"--distillation_weight requires --teacher\. Add --teacher, or"),
    "no training": (["--teacher=HOME/teacher", "--nodo_train", "--do_eval"], r"--teacher requires --do_train"),
    "no temperature": (["--teacher=HOME/teacher", "--distillation_temperature=0"], r"must be above 0; got 0; 2"),
    "nobody": (["--teacher=HOME/nobody"], r"Checkpoint not found: HOME/nobody; HOME contains"),
}


@pytest.fixture(scope="module")
def said(home):
    """What each command said, all in one process."""
    usual = ["--do_train", f"--train_file={home}/train.tsv", "--max_seq_length=16", f"--init_checkpoint={home}/base"]
    usual += [f"--eval_file={home}/train.tsv", "--train_batch_size=8", "--num_train_epochs=2", "--learning_rate=1e-3"]
    whole = [*usual, "--do_eval", f"--teacher={home}/teacher", f"--output_dir={home}/taught"]
    cases = {"taught": whole}
    for name, (flags, _) in BAD.items():
        cases[name] = [*usual, *(flag.replace("HOME", str(home)) for flag in flags), f"--output_dir={home}/out"]
    return dict(zip(cases, run_programs("run_classifier", cases.values()), strict=True))


def test_run_classifier(said, home):
    assert said["taught"]["status"] == 0, said["taught"]["log"]
    lines = [line for line in read_history(home / "taught" / "history.jsonl") if line["kind"] == "train"]
    assert lines[-1]["loss"] == pytest.approx((lines[-1]["label_loss"] + lines[-1]["teacher_loss"]) / 2, rel=1e-4)
    assert "eval_accuracy" in results(home / "taught")
    kept = read_tensors(os.fspath(home / "taught" / "model.ckpt-6"))
    assert not [name for name, value in kept.items() if 16 in np.shape(value)]


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, said, home):
    log = said[name]["log"].replace(str(home), "HOME")
    assert said[name]["status"] == 1 and re.search(BAD[name][1], log), log
    assert "Traceback" not in log and not (home / "out" / "task.json").exists()


EVERY = 7


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["records", "task"])
def test_two_devices_do_what_one_does(kind):
    done = processes.run("-m", "tests.tasks.distillation.two_devices", kind)
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
