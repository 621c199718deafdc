"""Which step of a pretraining needs the most memory: what `--dry_run` tells, and the warning before the first step."""

import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.comparisons import losses_of, matrices_of
from bert_tf.training.memory import StepShape, TeacherShape, estimate


def largest_step(pretraining, config: EncoderConfig, parameters: int) -> StepShape:
    """Returns the step of the phase that needs the most memory.

    Args:
        pretraining: a `programs.pretraining.Pretraining`, with its teacher if it has one.
        config: of the encoder that is built.
        parameters: how many numbers the built model has.
    """
    settings, objective, plan = pretraining.settings, pretraining.objective, pretraining.plan
    generator = objective.generator_of(config, settings) if objective.generator_of else None
    teacher = _teacher_of(pretraining)

    def step(phase):
        return StepShape(
            config,
            parameters,
            phase.batch_size,
            phase.records.max_seq_length,
            _predictions(pretraining, phase.records),
            tf.distribute.get_strategy().num_replicas_in_sync,
            settings.gradient_accumulation_steps,
            settings.precision,
            settings.rematerialize,
            generator,
            averages_weights=settings.average_weights > 0,
            teacher=teacher,
        )

    return max(map(step, plan.phases), key=lambda step: estimate(step).peak)


def _predictions(pretraining, records):
    """Returns how many places of a row the loss over the vocabulary is of."""
    objective, length = pretraining.objective, records.max_seq_length
    if objective.is_decoder:
        return length - 1
    if not objective.draws_masks:
        return 0
    most = pretraining.settings.max_predictions_per_seq
    return records.max_predictions or most * length // min(pretraining.plan.lengths)


def _teacher_of(pretraining):
    teacher, settings = pretraining.teacher, pretraining.settings
    if teacher is None:
        return None
    heads = teacher.config.heads_of(teacher.layer - 1)
    matrices = matrices_of(losses_of(settings.distillation_losses), heads, settings.relation_heads or heads)
    return TeacherShape(teacher.config, teacher.parameters, matrices)
