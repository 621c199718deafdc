"""What stood in rows before they were masked."""

from bert_tf.models.replacements import with_ids_at


def unmasked_ids(batch):
    """Returns int32 [B, S]: `input_ids` as they were before they were masked.

    Args:
        batch: input_ids [B, S], and where rows are masked masked_lm_positions, masked_lm_ids, masked_lm_weights [B, M].
    """
    if "masked_lm_ids" not in batch:
        return batch["input_ids"]
    places = batch["masked_lm_positions"], batch["masked_lm_weights"]
    return with_ids_at(*places, batch["masked_lm_ids"], batch["input_ids"])
