"""Which step of a pretraining needs the most memory: what a dry run tells, and the warning before the first step."""

import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.distillation_losses import count_relation_matrices
from bert_tf.training.memory import StepShape, TeacherShape, estimate


def largest_step(pretraining, config: EncoderConfig, parameters: int) -> StepShape:
    """Returns the step of the phase that needs the most memory.

    Args:
        pretraining: a `Pretraining`, with its teacher if it has one.
        config: configuration of the encoder that is built.
        parameters: how many numbers the built model has.
    """
    settings, objective, plan = pretraining.settings, pretraining.objective, pretraining.plan
    generator = objective.generator_config(config)
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
            settings.gradient_checkpointing,
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
    teacher = pretraining.teacher
    if teacher is None:
        return None
    heads, options = teacher.config.heads_of(teacher.layer - 1), pretraining.objective.options
    matrices = count_relation_matrices(options.weights, heads, options.relation_heads or heads)
    return TeacherShape(teacher.config, teacher.parameters, matrices)
