"""What an objective of pretraining is; `objectives.py` lists them all."""

import dataclasses
from collections.abc import Callable

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.task import PretrainingTask
from bert_tf.pretraining.records.batches import Records
from bert_tf.tasks.protocols import Tensors, Trainable
from bert_tf.utils.names import SENTENCE_OBJECTIVES
from bert_tf.utils.settings import Settings


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
        draws: from (batch, seed, number of the batch in the run) to what is random in it beside its masks, by name.
        config_of: from the configuration of the encoder to that with which the result is written.
        generator_of: from the configuration and settings to that of a second encoder, which is trained beside it and
            predicts the masked pieces; None: there is none.
        is_taught: whether `make_task` is given a teacher besides, as `teacher`; the setting of that name says which.
        settings: names of those that mean something with it alone.
        identity: from the configuration and settings to what else decides the result, JSON values; a run that is
            continued must have the same.
        by_settings: from the settings to those of these attributes that they change.
    """

    make_task: Callable[..., Trainable] = masked_lm
    of_batch: Callable[[Tensors], Tensors] | None = None
    is_decoder: bool = False
    draws_masks: bool = True
    masking: str = "token"
    takes_masks: bool = True
    sentence_objectives: tuple[str, ...] = SENTENCE_OBJECTIVES
    takes_labels: bool = True
    draws: Callable[[Tensors, int, int], Tensors] = lambda batch, seed, number: {}
    config_of: Callable[[EncoderConfig], EncoderConfig] = lambda config: config
    generator_of: Callable[[EncoderConfig, Settings], EncoderConfig] | None = None
    is_taught: bool = False
    settings: tuple[str, ...] = ()
    identity: Callable[[EncoderConfig, Settings], dict] = lambda config, settings: {}
    by_settings: Callable[[Settings], dict] = lambda settings: {}

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
