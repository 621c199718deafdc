"""Weights of training examples in the loss."""

import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import EncodedDataset
from bert_tf.tasks.base import FineTuningTask
from bert_tf.training.batching import BatchSettings


def weigh_examples(
    task: FineTuningTask,
    encoded: EncodedDataset | None,
    weights: np.ndarray | None,
    batching: BatchSettings,
    batch_size: int,
):
    """Adds `sample_weights` to the targets, scaled so that their mean is 1 in the task's loss.

    The learning rate assumes a loss of that scale.

    Args:
        task: to be trained.
        encoded: the training examples; if None, there are none.
        weights: relative weight of each example, float [n]; if None, all weigh the same, and nothing is added.
        batching, batch_size: of the training.
    """
    if weights is None:
        return
    weights = task.sequence_weights(encoded, weights).astype(np.float32)
    encoded.targets = {**encoded.targets, "sample_weights": weights}
    whole = weighted = 0.0
    for batch in batching.scoring(encoded, batch_size).batches():
        shares = task.example_weights(batch) * batch["is_real_example"]
        whole += float(tf.reduce_sum(shares))
        weighted += float(tf.reduce_sum(shares * batch["sample_weights"]))
    encoded.targets["sample_weights"] = weights * np.float32(whole / weighted)
