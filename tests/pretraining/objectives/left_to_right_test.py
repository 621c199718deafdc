"""Left-to-right LM: the batches that it learns from, and its own scores."""

import dataclasses

import numpy as np
import pytest

from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.left_to_right import LeftToRightTask, next_tokens
from tests import tiny

CONFIG = tiny.config()


def _row(*values, dtype=np.int32):
    return np.array([values], dtype)


def test_next_tokens():
    batch = {
        "input_ids": _row(2, 9, 4, 3, 0),
        "input_mask": _row(1, 1, 1, 1, 0),
        "masked_lm_positions": _row(2, 0),
        "masked_lm_ids": _row(7, 0),
        "masked_lm_weights": _row(1, 0, dtype=np.float32),
        "next_sentence_labels": _row(1),
    }
    made = {name: np.asarray(values).tolist() for name, values in next_tokens(batch).items()}
    assert made == {
        "input_ids": [[2, 9, 7, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 0]],
        "masked_lm_positions": [[0, 1, 2, 3]],
        "masked_lm_ids": [[9, 7, 3, 0]],
        "masked_lm_weights": [[1, 1, 1, 0]],
        "next_sentence_labels": [[1]],
    }


def test_next_tokens_of_packed_rows_and_of_rows_without_masks():
    batch = {
        "input_ids": _row(2, 9, 3, 2, 8, 3, 0),
        "input_mask": _row(1, 1, 1, 1, 1, 1, 0),
        "sentence_ids": _row(1, 1, 1, 2, 2, 2, 0),
    }
    made = {name: np.asarray(values).tolist() for name, values in next_tokens(batch).items()}
    assert made["input_ids"] == [[2, 9, 3, 2, 8, 3, 0]]
    assert made["masked_lm_ids"] == [[9, 3, 0, 8, 3, 0]]
    assert made["masked_lm_weights"] == [[1, 1, 0, 1, 1, 0]]


def test_left_to_right_has_no_sentence_objective():
    with pytest.raises(ValueError, match=r"\[CLS\], does not see the texts; got 'nsp'; choose \"none\"\."):
        LeftToRightTask(dataclasses.replace(CONFIG, is_decoder=True))


def test_left_to_right_has_scores_of_its_own():
    with pytest.raises(ValueError, match="`config` must have is_decoder"):
        LeftToRightTask(CONFIG, "none")
    config = dataclasses.replace(CONFIG, is_decoder=True)
    task, plain = LeftToRightTask(config, "none"), PretrainingTask(config, "none")
    sums = {f"masked_lm_{name}": np.array([4.0, 2.0]) for name in ("loss", "correct", "weights")}
    sums["masked_lm_labels"] = np.array([[1, 2, 2], [2, 0, 0]])
    assert task.metrics(sums) == {name.replace("masked_lm", "next_token"): v for name, v in plain.metrics(sums).items()}
    assert {"next_token_accuracy", "next_token_loss", "loss"} <= set(task.metric_names)
    assert list(task.loss_weights) == ["next_token_loss"]
    assert not any("masked" in name for name in task.metric_names)
