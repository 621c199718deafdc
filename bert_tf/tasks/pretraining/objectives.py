"""The objectives of pretraining, a row each: what one asks of the records, how its batches are made, and its task."""

import dataclasses
from collections.abc import Callable

from bert_tf.config import EncoderConfig
from bert_tf.data.pretraining.batches import Records
from bert_tf.names import SENTENCE_OBJECTIVES
from bert_tf.settings import Settings
from bert_tf.tasks.pretraining.left_to_right import next_tokens
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
        masking: how, where the settings do not say: one of `names.MASKINGS`.
        takes_masks: whether records to train on may have masks already.
        sentence_objectives: those that it can learn besides. Of records with labels for sentences it learns the first
            one; "none" there: it leaves them out.
        takes_labels: whether records may have such labels.
    """

    make_task: Callable[[EncoderConfig, str, bool, Settings], Trainable] = masked_lm
    of_batch: Callable[[Tensors], Tensors] | None = None
    is_decoder: bool = False
    draws_masks: bool = True
    masking: str = "token"
    takes_masks: bool = True
    sentence_objectives: tuple[str, ...] = SENTENCE_OBJECTIVES
    takes_labels: bool = True

    @property
    def needs_labels(self) -> bool:
        """Whether records must have labels for sentences."""
        return "none" not in self.sentence_objectives

    def check_records(self, name: str, several: list[Records]):
        """Raises ValueError where records are not what this objective is learned from.

        Args:
            name: of the objective.
            several: all records to train on.
        """
        for records in several:
            if fault := self._fault(records):
                must, received, remedy = fault
                raise ValueError(
                    f"Records for `objective={name}` must {must}. Received records {received}, such as "
                    f"{records.paths[0]}; make them by create_pretraining_data with {remedy}, or choose another "
                    "`objective`."
                )

    def _fault(self, records):
        """Returns what records must, what they are instead, and the setting that makes others; None: all is well."""
        if self.needs_labels and not records.has_sentences:
            return "have labels for sentences", "without", f"`sentence_objective={self.sentence_objectives[0]}`"
        if not self.takes_labels and records.has_sentences:
            return "have no labels for sentences", "with some", "`sentence_objective=none`"
        if not self.takes_masks and records.masked:
            return "have no masks, as these are drawn in training", "that are masked already", "`dynamic_masking`"
        return None


# By the value of --objective; `names.OBJECTIVES` lists them for the flag.
OBJECTIVES = {
    "masked_lm": Objective(),
    "left_to_right": Objective(
        of_batch=next_tokens, is_decoder=True, draws_masks=False, sentence_objectives=("none",)
    ),
    # Lan et al. 2019, sections 3.1 and 4.1: n-grams, and the order of the two texts.
    "albert": Objective(masking="ngram", sentence_objectives=("sop",)),
    # Liu et al. 2019, section 4: other masks in each epoch, and nothing is asked of sentences.
    "roberta": Objective(takes_masks=False, sentence_objectives=("none",), takes_labels=False),
    # Sun et al. 2019, section 3.2: phrases and names of a list are masked as one.
    "ernie": Objective(masking="phrase"),
}
