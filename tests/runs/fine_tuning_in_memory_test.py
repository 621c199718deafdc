"""`fine_tune_in_memory`: what a run on examples in memory saves and leaves."""

import os

import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.data.tables import LabeledTexts
from bert_tf.runs.fine_tuning_in_memory import fine_tune_in_memory
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.classification.data import ClassificationData
from bert_tf.tasks.classification.sources import Source
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "saved"), [pytest.param(None, [6], marks=pytest.mark.slow), ("loss", [2, 4, 6])])
def test_a_run_in_memory_leaves_neither_record_nor_report(tmp_path, monkeypatch, metric, saved):
    texts, labels = map(list, zip(*tiny.texts(8), strict=True))
    examples = LabeledTexts(list("01234567"), texts, None, labels, "X", list(range(8)))
    splits = {"train": examples} | ({"dev": examples} if metric else {})
    given = {
        "init_checkpoint": str(tiny.checkpoint(tmp_path / "start")), "output_dir": str(tmp_path / "run"),
        "do_train": True, "max_seq_length": 16, "train_batch_size": 4, "metric_for_best_model": metric,
    }  # fmt: skip
    settings = task_settings(ClassificationTask)().give(given)
    data = ClassificationData(splits, labels=["1", "0"], source=Source())
    steps, save = [], CheckpointManager.save

    def noted(self, step, tensors):
        steps.append(step)
        save(self, step, tensors)

    monkeypatch.setattr(CheckpointManager, "save", noted)
    run = fine_tune_in_memory(ClassificationTask, settings, data)
    assert steps == saved and run.trainer.global_step <= 6
    assert run.task.labels == ["1", "0"] and run.scores == {}
    assert not {"run.json", "history.jsonl", "report.html"} & set(os.listdir(tmp_path / "run"))
