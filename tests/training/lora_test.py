"""Training with adapters: what is frozen stays to the bit, and a run that is continued is one that never stopped."""

import dataclasses
import os
import shutil

import numpy as np
import pytest

from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.checkpoints.tf1 import read_tensors, write_tensors
from bert_tf.models.lora import Lora, is_adapter
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.run_config import RunConfig
from bert_tf.training.start import first_state
from tests import tiny
from tests.training import runs
from tests.training.runs import EXAMPLES

CONFIG = tiny.config(dropout=0.2, lora=Lora(2, 4.0))


def _fit(folder, init, config=CONFIG):
    run, states = RunConfig(os.fspath(folder), 8, 4, 1, 1e-2, init_checkpoint=os.fspath(init), save_checkpoints_steps=2,
                    keep_optimizer=True), []  # fmt: skip
    runs.fit(ClassificationTask(config, 2), run, on_begin=lambda start, state: states.append(state))
    config.save(folder / "bert_config.json")
    return states[0].model


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(the checkpoint to start from, the run's folder, its model)."""
    folder = tmp_path_factory.mktemp("lora")
    init = tiny.checkpoint(folder / "init")
    return init, folder / "out", _fit(folder / "out", init)


def _logits(model):
    pieces = {name: EXAMPLES.features[name][:8][np.newaxis] for name in ("input_ids", "segment_ids")}
    return model(pieces | {"input_mask": np.ones_like(pieces["input_ids"])}).numpy()


def test_only_adapters_pooler_and_head_have_moved(trained):
    init, out, _ = trained
    before, after = read_tensors(f"{init}/bert_model.ckpt"), read_tensors(f"{out}/model.ckpt-4")
    same = [name for name in before if np.array_equal(before[name], after[name])]
    assert sorted(before.keys() - set(same)) == ["bert/pooler/dense/bias", "bert/pooler/dense/kernel"]
    moved = {name.removesuffix("/adam_m") for name in after if name.endswith("/adam_m")}
    assert moved == {"bert/pooler/dense/bias", "bert/pooler/dense/kernel", "output_weights", "output_bias"} | {
        f"bert/encoder/layer_0/attention/self/{part}/lora_{m}" for part in ("query", "value") for m in "AB"
    }
    assert all(np.abs(after[name]).max() > 0 for name in after if is_adapter(name))


@pytest.mark.slow
def test_a_run_that_is_continued_is_one_that_never_stopped(trained, tmp_path):
    init, out, _ = trained
    parts = shutil.copytree(out, tmp_path / "parts")
    CheckpointManager(parts).delete_after(2)
    assert CheckpointManager(parts).steps() == [2]
    _fit(parts, init)
    runs.assert_equal(runs.saved(parts, 4), runs.saved(out, 4))


def test_merged_is_unmerged(trained):
    """A model without adapters is given them in its kernels; one with adapters gets them back as they were."""
    _, out, model = trained
    plain = ClassificationTask(dataclasses.replace(CONFIG, lora=None), 2).build_model()
    assign_weights(out, plain.variables)
    np.testing.assert_allclose(_logits(plain), _logits(model), atol=1e-5)
    again = ClassificationTask(CONFIG, 2).build_model()
    assign_weights(out, again.variables)
    np.testing.assert_array_equal(_logits(again), _logits(model))


def test_a_new_run_begins_with_new_adapters_on_the_merged_weights(trained, tmp_path):
    _, out, _ = trained
    task, merged = ClassificationTask(CONFIG, 2), read_arrays(out)
    state, step = first_state(task, RunConfig(os.fspath(tmp_path), 8, 4, init_checkpoint=os.fspath(out)))
    assert step == 0
    for variable in state.model.variables:
        if variable.path.endswith("/lora_B"):
            assert not np.any(variable)
        elif variable.path in merged:
            np.testing.assert_array_equal(variable, merged[variable.path])


def test_adapters_without_a_configuration_are_refused(trained, tmp_path):
    _, out, model = trained
    os.symlink(out / "model.ckpt-4.index", tmp_path / "model.ckpt-4.index")
    os.symlink(out / "model.ckpt-4.data-00000-of-00001", tmp_path / "model.ckpt-4.data-00000-of-00001")
    plain = [v for v in model.variables if not is_adapter(v.path)]
    with pytest.raises(ValueError, match="4 in the checkpoint but not in the model:\n.*query/lora_A"):
        assign_weights(tmp_path, plain)


def test_adapters_that_are_not_whole_are_refused(trained, tmp_path):
    _, out, _ = trained
    CONFIG.save(tmp_path / "bert_config.json")
    tensors, path = read_tensors(f"{out}/model.ckpt-4"), "bert/encoder/layer_0/attention/self/query"
    for wrong in ({}, {f"{path}/lora_B": np.zeros((3, 32), np.float32)}):
        kept = {name: array for name, array in tensors.items() if not name.startswith(f"{path}/lora_B")}
        write_tensors(f"{tmp_path}/model.ckpt-4", kept | wrong)
        with pytest.raises(ValueError, match=r"must contain complete adapters of the rank .* 2; got for .*/query"):
            read_arrays(tmp_path)
