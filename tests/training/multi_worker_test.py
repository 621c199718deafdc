"""Several workers do what one device does: MultiWorkerMirroredStrategy as two processes on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.data import batch_order, dataset
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training import strategies
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import by_chief, check_equal_on_workers, is_chief, num_workers, total
from bert_tf.utils.ports import free_ports
from tests import tiny
from tests.conftest import ROOT
from tests.training import pretraining_losses

TASK = tiny.shallow(ClassificationTask)(tiny.config(), 2)
EXAMPLES = tiny.tokenized(66)
SCORING = BatchSettings(16).scoring(EXAMPLES, 8)
STEP = re.compile(r"step (\d+)/\d+  loss")


def run(folder):
    return RunConfig(folder, 16, 8, 2, 1e-3, save_checkpoints_steps=4)


def train(folder, also=lambda step: None):
    """Returns the losses of the steps made to the end; after each comes also(step)."""
    keras.utils.set_random_seed(0)
    order, losses = batch_order.training_order(EXAMPLES.lengths, 16, 8, 0), []

    def watch(step, results, state):
        losses.append(float(results["loss"]))
        also(step)

    def batches(start):
        return dataset.build_batches(EXAMPLES, order[start:], 16, by_length=False)

    Trainer(TASK, run(folder)).fit(batches, callbacks=[watch])
    return losses


def hosts():
    """Returns host:port for two workers, free a moment ago."""
    return ",".join(f"127.0.0.1:{port}" for port in free_ports(2))


def start(command, **streams):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, text=True, **streams)


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """What each of two workers printed."""
    folder, names = tmp_path_factory.mktemp("workers"), hosts()
    logs = [folder / f"log-{index}" for index in (0, 1)]
    both = [
        start(["-m", "tests.training.multi_worker", names, str(index), os.fspath(folder)],
              stdout=subprocess.PIPE, stderr=logs[index].open("w"))
        for index in (0, 1)
    ]  # fmt: skip
    answers = [process.communicate()[0] for process in both]
    for process, log in zip(both, logs, strict=True):
        assert process.returncode == 0, log.read_text()[-4000:]
    return [json.loads(answer.splitlines()[-1]) for answer in answers]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """(losses, scores, outputs) of one device."""
    folder = os.fspath(tmp_path_factory.mktemp("alone"))
    losses, job = train(folder), Trainer(TASK, run(folder))
    job.restore()
    return losses, job.scores(SCORING), job.outputs(SCORING)


@pytest.mark.slow
def test_the_losses_are_those_of_one_device(workers, alone):
    assert all(w["replicas"] == 2 for w in workers) and len(alone[0]) == 8
    for worker in workers:
        np.testing.assert_allclose(worker["losses"], alone[0], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_losses_of_pretraining_are_those_of_one_device(workers, tmp_path):
    alone = pretraining_losses.losses(os.fspath(tmp_path))
    for worker in workers:
        np.testing.assert_allclose(worker["pretraining"], alone, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", pretraining_losses.KINDS)
def test_the_losses_of_pretraining_on_two_devices_are_those_of_one(kind):
    process = start(["-m", "tests.training.pretraining_losses", kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer, log = process.communicate()
    assert process.returncode == 0, log[-4000:]
    (one, _), (two, replicas) = (json.loads(answer)[name] for name in ("default", "mirrored"))
    assert replicas == 2 and one[-1] < one[0]
    np.testing.assert_allclose(two, one, rtol=1e-5)


@pytest.mark.slow
def test_every_worker_has_all_scores_and_outputs_in_order(workers, alone):
    for worker in workers:
        np.testing.assert_allclose(worker["outputs"], alone[2], rtol=0, atol=1e-5)
        assert worker["scores"] == pytest.approx(alone[1], abs=1e-6)


@pytest.mark.slow
def test_the_chief_alone_writes(workers):
    assert [w["chief"] for w in workers] == [True, False] and workers[0]["events"]
    assert [w["saved"] for w in workers] == [[4, 8, 2, 4, 8, 8], []]


@pytest.mark.slow
def test_a_signal_to_one_stops_all_at_one_step_and_they_go_on_there(workers):
    for worker in workers:
        assert worker["stopped"] == "143" and worker["steps"] == [2]
        assert worker["again"] == worker["losses"][2:]


@pytest.mark.slow
def test_they_can_agree(workers):
    assert [w["total"] for w in workers] == [[3, 2**41]] * 2
    assert [w["failed"] for w in workers] == [
        "The disk is full.",
        "The chief worker could not write its output; see its log.",
    ]
    assert "have the same step: 6 on this worker, 5 on the chief. Start all of them" in workers[1]["differing"]


def test_one_worker_agrees_with_itself():
    called = []
    by_chief(called.append, 1)
    check_equal_on_workers(7, "step")
    assert (
        called == [1]
        and is_chief()
        and total([2, True]) == [2, 1]
        and num_workers() == 1
    )


@pytest.mark.parametrize(
    ("names", "index"), [(["a:1", "b:2"], 2), (["a:1", "b:2"], None), (["a:1", "a:1"], 0), (["a", "b"], 0), ([], 0)]
)
def test_a_cluster_that_is_none_is_refused(names, index):
    with pytest.raises(ValueError, match=r"^`worker_hosts` must be different host:port .* from 0; got `worker"):
        strategies.multi_worker(names, index)


@pytest.mark.parametrize("config", [None, "{", "[]", '{"cluster": {"worker": ["a:1"]}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
    '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}'])  # fmt: skip
def test_a_tf_config_that_says_nothing_is_refused(config, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(ValueError, match=r"multi_worker` requires `worker_hosts` and .* got TF_CONFIG="):
        strategies.multi_worker()


def test_workers_of_this_machine_use_no_proxy_and_that_of_others_is_named(monkeypatch, caplog):
    monkeypatch.setattr(strategies.tf.distribute, "MultiWorkerMirroredStrategy", lambda: "joined")
    for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"http_proxy": "http://proxy:3128", "no_proxy": "a", "TF_CONFIG": ""}.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level("WARNING"):
        assert strategies.multi_worker(["localhost:1", "10.0.0.1:1"], 0) == "joined"
    assert os.environ["no_proxy"] == "a,localhost,127.0.0.1,127.0.0.0/8,::1"
    assert re.findall("Worker.*3128", caplog.text) == ["Worker 10.0.0.1:1: The connection uses the proxy proxy:3128"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_is_killed_the_other_ends_within_a_minute_and_both_go_on(tmp_path, victim):
    init, file = tiny.checkpoint(tmp_path / "init"), tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(64))
    common = [f"--init_checkpoint={init}", f"--train_file={file}", f"--output_dir={tmp_path / 'out'}", "--do_train",
              "--train_batch_size=16", "--num_train_epochs=50", "--max_seq_length=16", "--save_checkpoints_steps=20",
              "--distribution_strategy=multi_worker"]  # fmt: skip

    def start_both():
        names = hosts()
        return [start(["run_classifier.py", *common, f"--worker_hosts={names}", f"--task_index={index}"],
                      stderr=subprocess.PIPE) for index in (0, 1)]  # fmt: skip

    both = start_both()
    while not ((match := STEP.search(both[victim].stderr.readline())) and int(match[1]) >= 60):
        assert both[victim].poll() is None
    both[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    log = both[1 - victim].communicate(timeout=60)[1]
    print(f"worker {1 - victim} ended {time.monotonic() - killed:.1f} s after worker {victim} was killed")
    assert both[1 - victim].returncode == 1
    assert "Error: another worker of this run has stopped or cannot be reached; see its log." in log
    both[victim].communicate()
    begun = max(CheckpointManager(tmp_path / "out").steps())
    both = start_both()
    logs = [process.communicate(timeout=600)[1] for process in both]
    for process, log in zip(both, logs, strict=True):
        assert process.returncode == 0 and f"Continuing this run from step {begun}: " in log, log[-4000:]
    assert begun >= 40 and max(CheckpointManager(tmp_path / "out").steps()) == 200
