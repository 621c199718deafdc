"""Left to right: each piece from those before it, the paper's "LTR" (Devlin et al. 2018, section 5.1)."""

import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.task import PretrainingTask
from bert_tf.pretraining.objectives.unmasking import unmasked_ids
from bert_tf.utils.settings import Settings


class LeftToRightTask(PretrainingTask):
    """Learns to predict each next token, from batches that `next_tokens` makes.

    Its scores are `next_token_loss`, `next_token_accuracy` and so on: they are of all tokens, each foretold from those
    before it, and cannot be held against those of masked LM.

    Args: as `PretrainingTask`; the configuration must say `is_decoder`.

    Raises:
        ValueError: attention goes both ways, or there is a sentence objective.
    """

    def __init__(self, config: EncoderConfig, *args, **kwargs):
        if not config.is_decoder:
            raise ValueError(
                "`config` must say is_decoder, or each token would see the next one, which it is to predict. Received: "
                "is_decoder=False; set it."
            )
        super().__init__(config, *args, **kwargs)

    @property
    def metric_names(self):
        return tuple(map(_own_name, super().metric_names))

    @property
    def loss_weights(self):
        return _renamed(super().loss_weights)

    def loss_parts(self, outputs, batch, denominators):
        return _renamed(super().loss_parts(outputs, batch, denominators))

    def metrics(self, outputs, rows=None):
        return _renamed(super().metrics(outputs, rows))


def _own_name(score):
    return score.replace("masked_lm_", "next_token_", 1)


def _renamed(values):
    return {_own_name(name): value for name, value in values.items()}


def left_to_right(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> LeftToRightTask:
    """Returns the task; see `objectives.Objective.make_task`."""
    return LeftToRightTask(config, sentence_objective, packed, settings.rematerialize)


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
