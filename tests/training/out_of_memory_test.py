"""Out of memory in the first step: it is made again in smaller pieces, and the run is the one cut so from the start."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.loss_spike_guard import GuardConfig
from bert_tf.training.micro_batches import micro_batches
from bert_tf.training.run_config import RunConfig
from bert_tf.training.step import StepConfig, TrainStep
from tests import tiny
from tests.training import runs

OOM = tf.errors.ResourceExhaustedError(None, None, "Graph execution error:\n OOM when allocating tensor\n[Op:step]")


class Narrow(ClassificationTask):
    """A task on a device that has memory for so many rows: of more, the backward pass cannot be computed."""

    fits = 4

    def loss(self, outputs, batch, denominators):
        def allocate(gradient):
            if len(gradient) > self.fits:
                raise MemoryError("OOM when allocating tensor")  # TensorFlow makes ResourceExhaustedError of it
            return gradient

        @tf.custom_gradient
        def device(x):
            return tf.identity(x), lambda dy: tf.ensure_shape(tf.numpy_function(allocate, [dy], dy.dtype), dy.shape)

        return super().loss(device(outputs), batch, denominators)


def _fit(folder, fits, accumulation=1, kill_after=None, **step):
    """Trains four steps of 8 rows, and returns the `TrainingState` of the last one that was made."""
    task, states = Narrow(tiny.config(dropout=0.2), 2), []
    task.fits = fits
    step = StepConfig(seed=3, accumulation=accumulation, **step)
    values = {"learning_rate": 1e-3, "save_checkpoints_steps": 2, "keep_optimizer": True}
    run = RunConfig(os.fspath(folder), 8, 4, step=step, **values)
    runs.fit(task, run, kill_after, watch=lambda step, results, state: states.append(state))
    return states[-1]


def _end(folder):
    """Returns the numbers that the last checkpoint holds; not the settings, which say what the user asked for."""
    return {name: value for name, value in runs.saved(folder, 4).items() if not isinstance(value, bytes)}


GUARDED = {"guard": GuardConfig(), "scale_loss": True}


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{}, GUARDED], ids=["plain", "guarded"])
def test_a_run_that_had_to_be_cut_and_is_resumed_is_one_cut_from_the_start(tmp_path, caplog, extra):
    with caplog.at_level(logging.WARNING):
        cut = _fit(tmp_path / "cut", 4, kill_after=3, **extra)
    said = [record.getMessage() for record in caplog.records if "memory" in record.getMessage()]
    assert len(said) == 1 and said[0].startswith(
        "Out of memory in the first step, with 8 sequences at a time on each device"
    )
    assert "OOM when allocating tensor" in said[0]
    assert said[0].endswith(
        "Trying again with 4, as with `gradient_accumulation_steps=2` instead of 1. The global batch size stays 8."
    )
    resumed = _fit(tmp_path / "cut", 4, **extra)  # from step 2, with the counts of the steps before
    assert cut.step.config.accumulation == resumed.step.config.accumulation == 2
    assert int(resumed.optimizer.iterations.numpy()) == 4
    _fit(tmp_path / "whole", 8, accumulation=2, **extra)
    one, other = _end(tmp_path / "cut"), _end(tmp_path / "whole")
    assert one.keys() == other.keys() and one["training/finite_steps"] == (4 if extra else 0)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, atol=0, err_msg=name)


class Limited(TrainStep):
    """A step without a model, whose memory holds `fits` rows."""

    def __init__(self, fits, moves=False):
        self.fits, self.moves, self.tried = fits, moves, []
        self.config, self.strategy = StepConfig(), tf.distribute.get_strategy()
        self._needs_layout = self._is_compiled = self._has_programs = False
        self._graph_of = lambda batch: self._make

    def _make(self, batch):
        self.tried.append(len(batch["input_ids"]) // self.config.accumulation)
        if self.tried[-1] > self.fits:
            raise OOM
        return {"loss": tf.zeros([])}

    def accumulate(self, parts):
        self.config = StepConfig(accumulation=parts)

    def has_moved(self):
        return self.moves


@pytest.mark.parametrize("rows, tried", [(8, [8, 4, 2, 1]), (12, [12, 6, 3, 2, 1]), (7, [7, 1]), (1, [1])])
def test_the_micro_batch_is_halved_as_evenly_as_the_rows_allow(rows, tried):
    for fits in tried:
        step = Limited(fits)
        step({"input_ids": tf.zeros([rows, 16])})
        assert step.tried == tried[: tried.index(fits) + 1] and step.config.accumulation == rows // fits


def test_a_row_that_does_not_fit_ends_the_run():
    said = r"Out of memory even with one sequence at a time; OOM when allocating tensor; shorten"
    with pytest.raises(ValueError, match=said):
        Limited(0)({"input_ids": tf.zeros([4, 16])})


def test_a_step_that_ran_out_of_memory_while_variables_moved_is_not_made_again():
    step = Limited(1, moves=True)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        step({"input_ids": tf.zeros([4, 16])})
    assert step.tried == [4]


def test_sizes_of_a_micro_batch_divide_the_rows():
    assert micro_batches(12) == [12, 6, 4, 3, 2, 1]
    assert micro_batches(1) == [1]


_LIMITED = """
import resource, sys
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny

def train(name, length, rows=32):  # the attention's tensors are nearly all of the memory: [B, 8, S, S]
    shape = {"hidden_size": 8, "num_attention_heads": 8, "intermediate_size": 8, "max_position_embeddings": length}
    task = ClassificationTask(tiny.config(0.1, **shape), 2)
    run = RunConfig(f"{sys.argv[1]}/{name}", rows, 1)
    return Trainer(task, run).fit(lambda start: tiny.batches(tiny.tokenized(rows), rows, width=length))

train("small", 16)  # all threads and libraries are there now
with open("/proc/self/status") as file:
    size = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmSize"))
limit = size + int(2.8 * 32 * 8 * 512 * 512 * 4)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
state = train("large", 512)
print("accumulation", state.step.config.accumulation)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
def test_memory_that_is_really_used_up(tmp_path):
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(
        [sys.executable, "-c", _LIMITED, os.fspath(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr[-2000:]
    assert "OOM when allocating tensor with shape[32,8,512,512]" in made.stderr
    assert made.stdout.splitlines()[-1] in ("accumulation 2", "accumulation 4")
