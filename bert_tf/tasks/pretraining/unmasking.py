"""What stood in rows before they were masked."""

import tensorflow as tf


def unmasked_ids(batch):
    """Returns int32 [B, S]: `input_ids` as they were before they were masked.

    Args:
        batch: input_ids [B, S], and where rows are masked masked_lm_positions, masked_lm_ids, masked_lm_weights [B, M].
    """
    ids = batch["input_ids"]
    if "masked_lm_ids" not in batch:
        return ids
    # Padding points at place 0 with weight 0: it must put nothing back there.
    real = tf.cast(batch["masked_lm_weights"] > 0, tf.int32)[:, :, tf.newaxis]
    at = tf.one_hot(batch["masked_lm_positions"], tf.shape(ids)[1], dtype=tf.int32) * real  # [B, M, S]
    were = tf.reduce_sum(at * batch["masked_lm_ids"][:, :, tf.newaxis], 1)
    return tf.where(tf.reduce_sum(at, 1) > 0, were, ids)
