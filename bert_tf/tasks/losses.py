"""Shared losses on labels: cross-entropy, and the sum over the real examples of a batch."""

from collections.abc import Mapping

import tensorflow as tf


def cross_entropy(
    logits: tf.Tensor, target: tf.Tensor, weights: tf.Tensor | None = None, smoothing: float = 0.0
) -> tf.Tensor:
    """Computes the cross-entropy of n examples, like torch.nn.CrossEntropyLoss(weight=, label_smoothing=).

    The target is 1 - e + e/L for the label and e/L for each other (Szegedy et al. 2015, section 7). Weights apply to
    the terms of the sum over the labels, so that each label's share of a smoothed target has that label's weight.

    Args:
        logits: float32 [n, L].
        target: int32 [n].
        weights: label weights, float32 [L]. If None, 1 each.
        smoothing: the label smoothing e.

    Returns:
        float32 [n].
    """
    if weights is None and not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    terms = -tf.nn.log_softmax(logits)
    if weights is not None:
        terms *= weights
    own = tf.gather(terms, target, batch_dims=1)
    return (1 - smoothing) * own + smoothing * tf.reduce_mean(terms, -1)


def sum_losses(losses: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Computes the sum of the losses of a batch's examples, float32 [B], each times its weight; padding counts as 0.

    The weights are the batch's `sample_weights` if it has them, otherwise 1. A loss divides the sum by normalizers
    without these weights, so that its expectation over random batches is exactly the weighted one.
    """
    weights = batch["is_real_example"]
    return tf.reduce_sum(losses * (weights * batch["sample_weights"] if "sample_weights" in batch else weights))
