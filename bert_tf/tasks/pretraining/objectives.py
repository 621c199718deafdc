"""The objectives of pretraining, a row each: what one asks of the records, how its batches are made, and its task."""

import dataclasses
from collections.abc import Callable

from bert_tf.config import EncoderConfig
from bert_tf.names import SENTENCE_OBJECTIVES
from bert_tf.settings import Settings
from bert_tf.tasks.pretraining.left_to_right import left_to_right, next_tokens
from bert_tf.tasks.pretraining.task import PretrainingTask
from bert_tf.tasks.protocols import Tensors, Trainable


def masked_lm(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> Trainable:
    """Returns the task of masked LM, and of what the records ask of sentences."""
    return PretrainingTask(config, sentence_objective, packed, settings.rematerialize)


@dataclasses.dataclass(frozen=True)
class Objective:
    """One way to pretrain.

    Attributes:
        make_task: from (configuration of the encoder, sentence objective, whether rows are packed, settings) to the
            task.
        of_batch: makes its batch of one for masked LM, in the graph; None: that is its batch.
        is_decoder: whether a token sees itself and those before it only.
        draws_masks: whether records without masks get some as they are read.
        sentence_objectives: those that it can learn besides; where records have another one, it is left out.
    """

    make_task: Callable[[EncoderConfig, str, bool, Settings], Trainable] = masked_lm
    of_batch: Callable[[Tensors], Tensors] | None = None
    is_decoder: bool = False
    draws_masks: bool = True
    sentence_objectives: tuple[str, ...] = SENTENCE_OBJECTIVES


# By the value of --objective; `names.OBJECTIVES` lists them for the flag.
OBJECTIVES = {
    "masked_lm": Objective(),
    "left_to_right": Objective(
        make_task=left_to_right, of_batch=next_tokens, is_decoder=True, draws_masks=False, sentence_objectives=("none",)
    ),
}
