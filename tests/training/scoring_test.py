"""What is kept of a model's outputs over a file: whatever the batches were, each example's own, in the file's order."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import batch_order, dataset
from bert_tf.training.scoring import EvalBatches, Evaluator
from tests import tiny

IDS = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]], np.int32)


class _Task:
    """Keeps the ids that it is given, the first of each row alone too; an example's loss is its label."""

    features, targets = ("input_ids",), ("label_ids",)

    def __init__(self, knows_losses=True):
        self.knows_losses, self.rows = knows_losses, None

    def reduce_outputs(self, outputs, batch):
        return {"all": outputs, "first": outputs[:, 0]}

    def example_losses(self, outputs, batch):
        losses = tf.cast(batch["label_ids"], tf.float32)
        return (losses, tf.ones_like(losses) * 2) if self.knows_losses else None

    def metrics(self, outputs, rows):
        self.rows = rows
        return {"sum": float(outputs["first"].sum())}


def _scorer(**options):
    return Evaluator(_Task(**options), lambda features, training: features["input_ids"] * (1 - 2 * int(training)))


def _scoring(*batches, order=None, rows=None):
    """Returns the batches, dicts of lists."""
    made = [{name: tf.constant(values) for name, values in batch.items()} for batch in batches]
    return EvalBatches(lambda: made, order, rows)


def _batch(*places, **more):
    return {"input_ids": IDS[list(places)], **more}


def test_outputs_come_in_the_examples_own_order():
    order = np.array([[3, 0], [4, 1], [2, -1]])
    outputs, _ = _scorer().outputs(_scoring(*(_batch(*places) for places in order), order=order))
    assert outputs["all"].tolist() == IDS.tolist()
    assert outputs["first"].tolist() == [1, 4, 7, 10, 13]


def test_rows_that_fill_up_are_none_of_the_examples():
    order = np.array([[1, 0], [2, -1]])
    batches = [_batch(1, 0, is_real_example=[1.0, 1.0]), _batch(2, 4, is_real_example=[1.0, 0.0])]
    outputs, _ = _scorer().outputs(_scoring(*batches, order=order))
    assert outputs["first"].tolist() == [1, 4, 7]


def test_without_an_order_examples_come_as_they_are_and_what_is_not_real_is_dropped():
    batches = [_batch(3, 0, is_real_example=[1.0, 0.0]), _batch(4, 1, is_real_example=[0.0, 1.0])]
    outputs, _ = _scorer().outputs(_scoring(*batches))
    assert outputs["all"].tolist() == IDS[[3, 1]].tolist() and outputs["first"].tolist() == [10, 4]
    outputs, _ = _scorer().outputs(_scoring(_batch(3, 0), _batch(4)))  # all are real where nothing is said
    assert outputs["first"].tolist() == [10, 1, 13]


def test_narrower_batches_are_filled_up_with_zeros():
    batches = [{"input_ids": IDS[:2, :1]}, {"input_ids": IDS[2:4]}, {"input_ids": IDS[4:, :2]}]
    outputs, _ = _scorer().outputs(_scoring(*batches))
    assert outputs["all"].tolist() == [[1, 0, 0], [4, 0, 0], [7, 8, 9], [10, 11, 12], [13, 14, 0]]
    assert outputs["all"].dtype == np.int32


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 30])
def test_real_batches_give_each_example_its_own(batch_size, by_length):
    examples = tiny.tokenized(30)
    order = batch_order.scoring_order(examples.lengths, batch_size, by_length)
    scoring = EvalBatches(lambda: dataset.build_batches(examples, order, 16, by_length), order, examples)
    outputs, (losses, weights) = _scorer().outputs(scoring)
    own = [row.tolist() for row in np.split(examples.features["input_ids"], examples.splits[1:-1])]
    assert [row[: len(ids)].tolist() for row, ids in zip(outputs["all"], own, strict=True)] == own
    assert not any(row[len(ids) :].any() for row, ids in zip(outputs["all"], own, strict=True))
    assert losses.tolist() == examples.targets["label_ids"].tolist() and weights.tolist() == [2] * 30


def test_losses_are_the_examples_in_their_order():
    order = np.array([[1, 0], [2, -1]])
    batches = [_batch(1, 0, label_ids=[5, 1]), _batch(2, 4, label_ids=[7, 100])]
    scoring = _scoring(*batches, order=order, rows="the rows")
    scorer = _scorer()
    _, (losses, weights) = scorer.outputs(scoring)
    assert losses.tolist() == [1, 5, 7] and weights.tolist() == [2, 2, 2]
    assert scorer.scores(scoring) == {"sum": 12, "loss": 13 / 6}
    assert scorer.task.rows == "the rows"


def test_without_targets_there_are_no_losses():
    scorer, scoring = _scorer(), _scoring(_batch(0, 1))
    assert scorer.outputs(scoring)[1] is None
    assert scorer.scores(scoring) == {"sum": 5}


def test_a_task_without_losses_of_examples_has_them_among_its_metrics():
    scorer, scoring = _scorer(knows_losses=False), _scoring(_batch(0, 1, label_ids=[1, 0]))
    assert scorer.outputs(scoring)[1] is None
    assert scorer.scores(scoring) == {"sum": 5}


def test_outputs_that_are_no_numbers_are_refused_by_row():
    def scorer(value):
        return Evaluator(_Task(), lambda features, training: tf.where(features["input_ids"] == 8, value, 0.5))

    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinity for 1 of 5 examples, the first of them example 2"):
            scorer(value).outputs(_scoring(_batch(*range(5))))
    outputs, _ = scorer(-np.inf).outputs(_scoring(_batch(*range(5))))  # what cannot be chosen, as a span of no piece
    assert outputs["all"][2].tolist() == [0.5, -np.inf, 0.5]
