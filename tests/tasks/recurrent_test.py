"""A BiLSTM between encoder and head, the paper's help for a left-to-right model, in every task that can have one."""

import numpy as np
import pytest

from bert_tf.checkpoints import heads
from bert_tf.tasks import recurrent
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from tests import tiny

CONFIG = tiny.config(is_decoder=True)
TASKS = [
    ClassificationTask(CONFIG, 3, lstm_units=4),
    QuestionAnsweringTask(CONFIG, lstm_units=4),
    TaggingTask(CONFIG, ["B-A", "I-A", "O"], lstm_units=4),
    MultipleChoiceTask(CONFIG, lstm_units=4),
]
OUTPUTS = dict(zip((task.name for task in TASKS), (3, 2, 3, 1), strict=True))
IDS = np.array([[2, 9, 10, 5, 11, 3]], np.int32)


def _rows(ids, width):
    """Returns the features of rows, padded; [1, S], where the question has one choice [1, 1, S]."""
    padded = np.pad(ids, [(0, 0), (0, width - ids.shape[1])])
    return {"input_ids": padded, "input_mask": (padded > 0).astype(np.int32), "segment_ids": 0 * padded}


def _answers(task, model, rows):
    """Returns the numbers that the model gives for each piece or for the row."""
    if task.list_inputs:  # so that there is a choice to make
        rows = {name: np.stack([values, values], 1) for name, values in rows.items()}
    outputs = model({name: rows[name] for name in task.features})
    return np.stack([*outputs.values()], -1) if isinstance(outputs, dict) else np.asarray(outputs)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_bilstm_reads_what_the_encoder_does_not_see(task):
    model = task.build_model()
    paths = {v.path: tuple(v.shape) for v in model.variables if not v.path.startswith("bert/")}
    assert paths == {
        **{"recurrent/lstm_0/kernel": (2, 32, 16), "recurrent/lstm_0/recurrent_kernel": (2, 4, 16)},
        **{"recurrent/lstm_0/bias": (2, 16), "recurrent/classifier/output_bias": (OUTPUTS[task.name],)},
        "recurrent/classifier/output_weights": (OUTPUTS[task.name], 8),
    }
    assert not any("pooler" in v.path for v in model.trainable_variables) and not task.uses_pooler
    assert heads.fresh(task)[:-1] == task.head == recurrent.RECURRENT_HEAD and task.identity()["lstm_units"] == 4
    one, padded = (_answers(task, model, _rows(IDS, width)) for width in (6, 9))
    np.testing.assert_allclose(padded[:, :6], one, atol=1e-5)
    last = IDS.copy()
    last[0, 4] = 6
    other = _answers(task, model, _rows(last, 6))
    assert np.abs(other - one)[0].reshape(-1, one.shape[-1])[0].max() > 1e-6  # the first piece's, or the row's


def test_where_there_is_none_nothing_is_said_of_it():
    for task in (ClassificationTask(CONFIG, 3), MultipleChoiceTask(CONFIG), QuestionAnsweringTask(CONFIG)):
        assert "lstm_units" not in {**task.to_dict(), **task.identity()} and task.head != recurrent.RECURRENT_HEAD
