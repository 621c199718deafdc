"""Tasks on records, the original tokens of masked rows, and the weights of rows that only fill a batch."""

import tensorflow as tf

from bert_tf.models.replacements import with_ids_at
from bert_tf.tasks.trainable_task import TrainableTask


def unmasked_ids(batch):
    """Returns int32 [B, S]: the original `input_ids`, before masking.

    Args:
        batch: input_ids [B, S]; if rows are masked, masked_lm_positions, masked_lm_ids, masked_lm_weights [B, M].
    """
    if "masked_lm_ids" not in batch:
        return batch["input_ids"]
    positions = batch["masked_lm_positions"], batch["masked_lm_weights"]
    return with_ids_at(*positions, batch["masked_lm_ids"], batch["input_ids"])


class RecordTask(TrainableTask):
    """A task trained on records, whose loss is a mean over tokens rather than examples."""

    uses_pooler = False

    def example_losses(self, outputs, batch):
        return None


def without_padding(weights, batch):
    """Returns weights as float32 [B, any], with 0 in padding rows (`is_real_example` is 0)."""
    real, weights = batch.get("is_real_example"), tf.cast(weights, tf.float32)
    return weights if real is None else weights * real[:, tf.newaxis]
