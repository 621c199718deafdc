"""A run's checkpoints: which stay, which are whole, and what a full disk or a kill leaves."""

import logging
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from tests import processes
from tests.full_disk import full_disk


def _tensors(step):
    return {"weight": np.full([300], step, np.float32), "global_step": np.int64(step)}


def _save(store, *steps):
    for step in steps:
        store.save(step, _tensors(step))


def _cut(store, step, ending=".data-00000-of-00001"):
    path = store.prefix(step) + ending
    os.truncate(path, os.path.getsize(path) // 2)


def test_save_latest_restore(tmp_path):
    store = CheckpointManager(tmp_path / "new" / "out")
    assert store.latest() is None and store.steps() == []
    _save(store, 9, 10)
    step, prefix = store.latest()
    assert (step, prefix) == (10, f"{tmp_path}/new/out/model.ckpt-10")
    restored = store.restore(prefix)
    assert restored["global_step"] == 10 and restored["weight"].tolist() == [10.0] * 300


def test_the_state_file_is_tensorflow_s_and_can_be_moved(tmp_path):
    _save(CheckpointManager(tmp_path / "out", keep=2), 1, 2, 3)
    os.rename(tmp_path / "out", tmp_path / "moved")
    assert tf.train.latest_checkpoint(tmp_path / "moved") == f"{tmp_path}/moved/model.ckpt-3"
    state = tf.train.get_checkpoint_state(tmp_path / "moved")
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == ["model.ckpt-2", "model.ckpt-3"]


def test_the_last_few_the_best_and_the_protected_stay(tmp_path):
    store = CheckpointManager(tmp_path, keep=2, protect=[3])
    _save(store, 1, 2)
    store.mark_best(1, "eval_accuracy", np.float32(0.5))
    _save(store, 3, 4, 5, 6)
    assert store.steps() == [1, 3, 5, 6]
    assert CheckpointManager(tmp_path).best() == (1, "eval_accuracy", 0.5)
    store.mark_best(6, "eval_accuracy", 0.75)
    _save(store, 7)
    assert store.steps() == [3, 6, 7]
    assert sorted(os.listdir(tmp_path))[:2] == ["best_checkpoint.json", "checkpoint"]
    assert len(os.listdir(tmp_path)) == 2 + 3 * 2


def test_a_step_is_replaced_and_later_ones_are_left_alone(tmp_path):
    store = CheckpointManager(tmp_path, keep=1)
    _save(store, 5)
    store.save(5, {"weight": np.zeros(2)})
    assert store.restore(store.prefix(5))["weight"].tolist() == [0, 0]
    _save(store, 4)  # a run set back by hand
    assert store.steps() == [4, 5]
    assert tf.train.latest_checkpoint(tmp_path).endswith("model.ckpt-4")


@pytest.mark.parametrize("ending", [".data-00000-of-00001", ".index"])
def test_a_half_checkpoint_is_named_and_the_one_before_it_used(tmp_path, caplog, ending):
    store = CheckpointManager(tmp_path)
    _save(store, 1, 2, 3)
    _cut(store, 3, ending)
    with caplog.at_level(logging.WARNING):
        assert store.latest() == (2, store.prefix(2))
    assert "model.ckpt-3 is not a complete TF1 checkpoint" in caplog.text
    with pytest.raises(ValueError, match="model.ckpt-3 is not a complete"):
        store.latest(strict=True)
    _save(store, 3)  # the run comes there again
    assert store.latest() == (3, store.prefix(3))


def test_none_is_whole(tmp_path, caplog):
    store = CheckpointManager(tmp_path)
    _save(store, 1)
    os.remove(store.prefix(1) + ".index")
    assert store.latest() is None
    assert "no file model.ckpt-1.index" in caplog.text


def _save_and_die(folder):
    """Saves step 1, and is killed within step 2, before its .index has its name."""
    store, replace = CheckpointManager(folder), os.replace
    _save(store, 1)

    def die(source, target):
        if target.endswith(".index"):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = die
    _save(store, 2)


@pytest.mark.slow
def test_what_a_killed_save_left_is_cleaned(tmp_path):
    process = processes.start(_save_and_die, tmp_path)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = [name for name in os.listdir(tmp_path) if name.startswith(".tmp-") or "ckpt-2" in name]
    assert len(left) == 2  # the temporary directory with the .index, and the .data without it
    store = CheckpointManager(tmp_path)
    assert store.latest() == (1, store.prefix(1))
    _save(store, 3)
    assert store.steps() == [1, 3] and not set(left) & set(os.listdir(tmp_path))


STATE = {"weight": np.full([300], 5, np.float32), "weight/adam_m": np.ones([300], np.float32), "step": np.int64(5)}


def _shrink(folder, kill_at=None):
    """Takes what is called adam_m out of step 5; `kill_at`: the process dies before so many files were touched."""
    touched = []

    def dying(function):
        def call(*paths):
            if len(touched) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            touched.append(paths)
            return function(*paths)

        return call

    for name in ("replace", "remove"):
        setattr(os, name, dying(getattr(os, name)))
    CheckpointManager(folder).shrink(5, lambda name: not name.endswith("adam_m"), {"ended": np.int64(1)})


# Two files of data, the index, the old data.
@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [pytest.param(n, marks=() if n == 2 else pytest.mark.slow) for n in range(4)])
def test_killed_while_it_is_made_smaller_a_checkpoint_is_the_old_one_or_the_new(tmp_path, kill_at):
    store = CheckpointManager(tmp_path)
    store.save(5, STATE)
    died = processes.start(_shrink, os.fspath(tmp_path), kill_at)
    died.join()
    assert died.exitcode == -signal.SIGKILL
    step, prefix = store.latest()
    there = store.restore(prefix)
    assert step == 5 and there.keys() == (STATE.keys() if kill_at < 3 else {"weight", "step", "ended"})
    assert (there["weight"] == 5).all() and tf.train.load_checkpoint(prefix).get_tensor("step") == 5
    store.shrink(5, lambda name: not name.endswith("adam_m"), {"ended": np.int64(1)})
    store.save(6, STATE)
    there = store.restore(prefix)
    assert there.keys() == {"weight", "step", "ended"} and (there["weight"] == 5).all()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"] + [f"model.ckpt-{file}" for file in (
        "5.data-00000-of-00002", "5.data-00001-of-00002", "5.index", "6.data-00000-of-00001", "6.index")]  # fmt: skip


def test_what_has_nothing_to_lose_stays_as_it_is(tmp_path):
    store = CheckpointManager(tmp_path)
    store.save(5, {"weight": np.ones(3)})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    store.shrink(5, lambda name: True, {"ended": np.int64(1)})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    with pytest.raises(ValueError, match="model.ckpt-7 is not a complete TF1 checkpoint"):
        store.shrink(7, lambda name: True, {})


def test_a_full_disk_leaves_the_old_checkpoints_and_nothing_else(tmp_path):
    store = CheckpointManager(tmp_path, keep=1)
    store.save(1, {"weight": np.ones(9)})
    with full_disk(50_000), pytest.raises(ValueError) as raised:
        store.save(2, {"weight": np.ones(100_000)})
    said = str(raised.value)
    assert said.startswith(f"The checkpoint {tmp_path}/model.ckpt-2 could not be written: ")
    assert "; File too large. The partial file was removed" in said and "Check disk space" in said
    expected = ["checkpoint", "model.ckpt-1.data-00000-of-00001", "model.ckpt-1.index"]
    assert sorted(os.listdir(tmp_path)) == expected
    store = CheckpointManager(tmp_path)
    assert store.latest() == (1, store.prefix(1))
    assert store.restore(store.prefix(1))["weight"].tolist() == [1.0] * 9


def test_wrong_use(tmp_path):
    with pytest.raises(ValueError, match="at least 1; got 0"):
        CheckpointManager(tmp_path, keep=0)
    with pytest.raises(ValueError, match=r"must be one of .*: \[\]; got 3"):
        CheckpointManager(tmp_path).mark_best(3, "eval_f1", 0.5)
    (tmp_path / "best_checkpoint.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="best_checkpoint.json must contain step, metric and value"):
        CheckpointManager(tmp_path).best()
