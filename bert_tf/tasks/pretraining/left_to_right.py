"""Left to right: each piece from those before it, the paper's "LTR" (Devlin et al. 2018, section 5.1)."""

import tensorflow as tf

from bert_tf.tasks.pretraining.unmasking import unmasked_ids


def next_tokens(batch):
    """Turns a batch for masked LM into one for the left-to-right model: every token predicts the one after it.

        input_ids             [CLS]  the  [MASK] [SEP]  .          as in the records; masked_lm_ids: man
        input_ids             [CLS]  the   man   [SEP]  .          what stood there is put back
        masked_lm_positions     0     1     2     3
        masked_lm_ids          the   man  [SEP]   0
        masked_lm_weights       1     1     1     0                0: the next is padding, or in another packed sentence

    There are M = S - 1 predictions a row then, and the logits are that much larger: [B, S - 1, V].

    Args:
        batch: input_ids, input_mask [B, S], and where there are any masked_lm_positions, masked_lm_ids,
            masked_lm_weights [B, M] and sentence_ids [B, S]; whatever else it has stays.

    Returns:
        The batch with the four of the picture: int32 [B, S], int32 [B, S - 1], int32 [B, S - 1], float32 [B, S - 1].
    """
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    ids, real = unmasked_ids(batch), batch["input_mask"][:, 1:] > 0
    if "sentence_ids" in batch:
        real &= batch["sentence_ids"][:, 1:] == batch["sentence_ids"][:, :-1]
    places = tf.range(tf.shape(ids)[1] - 1)
    return batch | {
        "input_ids": ids,
        "masked_lm_positions": tf.zeros_like(ids[:, 1:]) + places,
        "masked_lm_ids": tf.where(real, ids[:, 1:], 0),
        "masked_lm_weights": tf.cast(real, tf.float32),
    }
