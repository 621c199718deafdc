"""The objectives of pretraining, a row each: what one asks of the records, how its batches are made, and its task."""

import dataclasses
from collections.abc import Callable

from bert_tf.config import EncoderConfig
from bert_tf.names import SENTENCE_OBJECTIVES
from bert_tf.settings import Settings
from bert_tf.tasks.pretraining.comparisons import losses_of, predicts_masked
from bert_tf.tasks.pretraining.distillation import DistillationTask, unmasked
from bert_tf.tasks.pretraining.left_to_right import next_tokens
from bert_tf.tasks.pretraining.task import PretrainingTask
from bert_tf.tasks.protocols import Tensors, Trainable

_OF_DISTILLATION = ("distillation_losses", "distillation_temperature", "teacher_layer", "relation_heads")


def masked_lm(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> Trainable:
    """Returns the task of masked LM, and of what the records ask of sentences."""
    return PretrainingTask(config, sentence_objective, packed, settings.rematerialize)


def distillation(
    config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings, teacher: Callable
) -> Trainable:
    """Returns the task of a teacher's student; the teacher is as `DistillationTask` takes it."""
    losses, heads = losses_of(settings.distillation_losses), settings.relation_heads
    return DistillationTask(
        config, teacher, losses, settings.distillation_temperature, heads, packed, settings.rematerialize
    )


def _where_nothing_is_masked(settings: Settings) -> dict:
    """Where no loss is of masked places, texts are read as they are."""
    masked = predicts_masked(losses_of(settings.distillation_losses))
    return {} if masked else {"of_batch": unmasked, "draws_masks": False}


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
        settings: names of those that mean something with it alone.
        identity: from the configuration and settings to what else decides the result, JSON values; a run that is
            continued must have the same.
        is_taught: whether `make_task` is given a teacher besides, as `teacher`; the setting of that name says which.
        by_settings: from the settings to those of these attributes that they change; None: they change none.
    """

    make_task: Callable[..., Trainable] = masked_lm
    of_batch: Callable[[Tensors], Tensors] | None = None
    is_decoder: bool = False
    draws_masks: bool = True
    sentence_objectives: tuple[str, ...] = SENTENCE_OBJECTIVES
    settings: tuple[str, ...] = ()
    identity: Callable[[EncoderConfig, Settings], dict] = lambda config, settings: {}
    is_taught: bool = False
    by_settings: Callable[[Settings], dict] | None = None


# By the value of --objective; `names.OBJECTIVES` lists them for the flag.
OBJECTIVES = {
    "masked_lm": Objective(),
    "left_to_right": Objective(
        of_batch=next_tokens, is_decoder=True, draws_masks=False, sentence_objectives=("none",)
    ),
    "distillation": Objective(
        make_task=distillation,
        sentence_objectives=("none",),
        settings=("teacher", *_OF_DISTILLATION),
        identity=lambda config, settings: {name: settings.get(name) for name in _OF_DISTILLATION},
        is_taught=True,
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
    changes = objective.by_settings(settings) if objective.by_settings else {}
    return dataclasses.replace(objective, **changes)
