"""Left-to-right LM: each token is predicted from those before it (Devlin et al. 2018, section 5.1: "LTR")."""

import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.record_task import unmasked_ids


class LeftToRightTask(PretrainingTask):
    """Left-to-right LM: predicts each next token, from batches created by `next_tokens`.

    Its metrics, `next_token_loss`, `next_token_accuracy` and so on, cover all tokens, each predicted from those before
    it, and are not comparable with those of masked LM.

    Args: as `PretrainingTask`; the configuration must have `is_decoder`.

    Raises:
        ValueError: attention is bidirectional, or there is a sentence objective.
    """

    def __init__(self, config: EncoderConfig, *args, **kwargs):
        if not config.is_decoder:
            raise ValueError(
                "`config` must have is_decoder, otherwise each token would see the next one, which it has to predict; "
                "got is_decoder=False; set it."
            )
        super().__init__(config, *args, **kwargs)
        self.metric_names = tuple(_rename(dict.fromkeys(self.metric_names)))
        self.loss_weights = _rename(self.loss_weights)

    def loss_parts(self, outputs, batch, denominators):
        return _rename(super().loss_parts(outputs, batch, denominators))

    def metrics(self, outputs, rows=None):
        return _rename(super().metrics(outputs, rows))


def _rename(scores):
    """Returns the metrics with "masked_lm" in their names replaced by "next_token"."""
    return {name.replace("masked_lm_", "next_token_", 1): value for name, value in scores.items()}


def next_tokens(batch):
    """Converts a batch for masked LM to one for a left-to-right model: each token predicts the next one.

        input_ids             [CLS]  the  [MASK] [SEP]  .          as in the records; masked_lm_ids: man
        input_ids             [CLS]  the   man   [SEP]  .          the original tokens are restored
        masked_lm_positions     0     1     2     3
        masked_lm_ids          the   man  [SEP]   0
        masked_lm_weights       1     1     1     0                0: the next is padding, or in another packed sentence

    There are M = S - 1 predictions per row, so the logits are larger: [B, S - 1, V].

    Args:
        batch: input_ids, input_mask [B, S], and optionally masked_lm_positions, masked_lm_ids, masked_lm_weights
            [B, M] and sentence_ids [B, S]; other features are unchanged.

    Returns:
        The batch with the four features shown above: int32 [B, S], int32 [B, S - 1], int32 [B, S - 1], float32 [B, S -
            1].
    """
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    ids, real = unmasked_ids(batch), batch["input_mask"][:, 1:] > 0
    if "sentence_ids" in batch:
        real &= batch["sentence_ids"][:, 1:] == batch["sentence_ids"][:, :-1]
    positions = tf.range(tf.shape(ids)[1] - 1)
    return batch | {
        "input_ids": ids,
        "masked_lm_positions": tf.zeros_like(ids[:, 1:]) + positions,
        "masked_lm_ids": tf.where(real, ids[:, 1:], 0),
        "masked_lm_weights": tf.cast(real, tf.float32),
    }
