"""The objectives of pretraining, a row each: what one asks of the records, how its batches are made, and its task."""

import dataclasses
from collections.abc import Callable

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.comparisons import losses_of, predicts_masked
from bert_tf.pretraining.objectives.distillation import DistillationTask, unmasked
from bert_tf.pretraining.objectives.generators import as_electra, generator_of
from bert_tf.pretraining.objectives.left_to_right import left_to_right, next_tokens
from bert_tf.pretraining.objectives.objective import Objective
from bert_tf.pretraining.objectives.replaced_tokens import ReplacedTokensTask, sampling_draws, with_unmasked_ids
from bert_tf.tasks.protocols import Trainable
from bert_tf.utils.settings import Settings

_OF_DISTILLATION = ("distillation_losses", "distillation_temperature", "teacher_layer", "relation_heads")


def replaced_tokens(config: EncoderConfig, sentence_objective: str, packed: bool, settings: Settings) -> Trainable:
    """Returns the task of a discriminator and the generator beside it."""
    config = dataclasses.replace(config, has_pooler=False)
    weight, generator = settings.discriminator_weight, generator_of(config, settings)
    return ReplacedTokensTask(config, generator, packed, weight, settings.rematerialize)


def _identity_of_replaced_tokens(config, settings):
    generator = as_electra(generator_of(config, settings))  # the same from a BERT's configuration and from our own
    return {"generator": generator.to_dict(), "discriminator_weight": settings.discriminator_weight}


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
