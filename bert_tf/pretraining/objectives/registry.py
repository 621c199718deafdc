"""The pretraining objectives by name."""

import dataclasses
from collections.abc import Callable

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.base import PretrainingTask, left_to_right, next_tokens
from bert_tf.pretraining.objectives.distillation import DistillationTask, losses_of, predicts_masked, unmasked
from bert_tf.pretraining.objectives.replaced_tokens import (
    ReplacedTokensTask,
    as_electra,
    generator_of,
    sampling_draws,
    with_unmasked_ids,
)
from bert_tf.pretraining.records.batches import Records
from bert_tf.tasks.base import Tensors, TrainableTask
from bert_tf.utils.names import SENTENCE_OBJECTIVES
from bert_tf.utils.settings import Settings

# === Objective ===
# What an objective of pretraining is; `objectives.py` lists them all.


def masked_lm(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> TrainableTask:
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

    make_task: Callable[..., TrainableTask] = masked_lm
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


# === Objectives ===
# The objectives of pretraining, a row each: what one asks of the records, how its batches are made, and its task.


_OF_DISTILLATION = ("distillation_losses", "distillation_temperature", "teacher_layer", "relation_heads")


def replaced_tokens(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> TrainableTask:
    """Returns the task of a discriminator and the generator beside it."""
    config = dataclasses.replace(config, has_pooler=False)
    weight, generator = settings.discriminator_weight, generator_of(config, settings)
    return ReplacedTokensTask(config, generator, packed, weight, settings.rematerialize)


def _identity_of_replaced_tokens(config, settings):
    generator = as_electra(generator_of(config, settings))  # the same from a BERT's configuration and from our own
    return {"generator": generator.to_dict(), "discriminator_weight": settings.discriminator_weight}


def distillation(
    config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings, teacher: Callable
) -> TrainableTask:
    """Returns the task of a teacher's student; the teacher is as `DistillationTask` takes it."""
    losses, heads = losses_of(settings.distillation_losses), settings.relation_heads
    return DistillationTask(
        config, teacher, losses, settings.distillation_temperature, heads, packed, settings.rematerialize
    )


def _where_nothing_is_masked(settings: Settings) -> dict:
    """Where no loss is of masked places, texts are read as they are."""
    masked = predicts_masked(losses_of(settings.distillation_losses))
    return {} if masked else {"of_batch": unmasked, "draws_masks": False}


def _identity_of_distillation(config, settings):
    return {name: settings.get(name) for name in _OF_DISTILLATION}


# By the value of --objective; `names.OBJECTIVES` lists them for the flag.
OBJECTIVES = {
    "masked_lm": Objective(),
    "left_to_right": Objective(
        make_task=left_to_right, of_batch=next_tokens, is_decoder=True, draws_masks=False, sentence_objectives=("none",)
    ),
    # Lan et al. 2019, sections 3.1 and 4.1: n-grams, and the order of the two texts.
    "albert": Objective(masking="ngram", sentence_objectives=("sop",)),
    # Liu et al. 2019, section 4: other masks in each epoch, and nothing is asked of sentences.
    "roberta": Objective(takes_masks=False, sentence_objectives=("none",), takes_labels=False),
    # Sun et al. 2019, section 3.2: phrases and names of a list are masked as one.
    "ernie": Objective(masking="phrase"),
    "electra": Objective(
        replaced_tokens,
        of_batch=with_unmasked_ids,
        sentence_objectives=("none",),
        draws=sampling_draws,
        config_of=as_electra,
        generator_of=generator_of,
        settings=("generator_size", "generator_config_file", "discriminator_weight"),
        identity=_identity_of_replaced_tokens,
    ),
    "distillation": Objective(
        distillation,
        sentence_objectives=("none",),
        is_taught=True,
        settings=("teacher", *_OF_DISTILLATION),
        identity=_identity_of_distillation,
        by_settings=_where_nothing_is_masked,
    ),
}


def objective_of(settings: Settings) -> Objective:
    """Returns the row of the setting `objective`, as the other settings change it.

    Raises:
        ValueError: a setting was given that means something with another one alone, or is wrong.
    """
    objective = OBJECTIVES[settings.objective]
    for name, other in OBJECTIVES.items():
        alone = settings.given & (set(other.settings) - set(objective.settings))
        if alone:
            raise ValueError(
                f"`{min(alone)}` must come with `objective={name}`. Received it with `objective={settings.objective}`; "
                "leave it out, or choose that objective."
            )
    changes = objective.by_settings(settings)
    return dataclasses.replace(objective, **changes) if changes else objective
