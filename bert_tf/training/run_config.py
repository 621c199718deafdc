"""The settings of a program -> the `RunConfig` of its training."""

import dataclasses
import os

from bert_tf.training.loop import RunConfig
from bert_tf.training.optimizers import AdamConfig, always_corrects
from bert_tf.training.step import StepConfig
from bert_tf.utils.names import AUTO
from bert_tf.utils.settings import Settings


def make_run_config(settings: Settings, steps: int, warmup: int, use_xla: bool, identity: dict) -> RunConfig:
    """Returns what the settings of `flags.training.TRAINING` say of a run.

    Args:
        settings: of the program.
        steps: of the run.
        warmup: steps in which the rate rises.
        use_xla: compile the step.
        identity: what else decides the result, JSON values; a run that is continued must have the same.

    Raises:
        ValueError: a number of the optimizer is out of range, or it does not take one that was given.
    """
    start, optimizer = settings.init_checkpoint, settings.get("optimizer", RunConfig.optimizer)
    return RunConfig(
        output_dir=settings.output_dir,
        train_batch_size=settings.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=None if settings.learning_rate == AUTO else settings.learning_rate,
        init_checkpoint=start,
        save_checkpoints_steps=settings.save_checkpoints_steps,
        keep_checkpoints=settings.keep_checkpoints,
        keep_optimizer=settings.get("keep_optimizer", RunConfig.keep_optimizer),
        anew=settings.overwrite_output_dir,
        optimizer=optimizer,
        schedule=settings.get("schedule", RunConfig.schedule),
        adam=_adam_config(settings, optimizer),
        step=StepConfig(
            seed=settings.seed,
            accumulation=settings.gradient_accumulation_steps,
            clip_norm=settings.get("clip_norm", StepConfig.clip_norm),
            use_xla=use_xla,
            scale_loss=settings.precision == "mixed_float16",
            pack_examples=settings.get("pack_examples", False),
        ),
        settings={
            "precision": settings.precision,
            "init_checkpoint": start and os.path.realpath(start),
            **identity,
        },
    )


def _adam_config(settings, optimizer):
    """Returns the optimizer's numbers; those that the settings do not have keep their defaults."""
    names = [field.name for field in dataclasses.fields(AdamConfig) if field.name in settings]
    if always_corrects(optimizer):
        if settings.where_given("bias_correction") is False:
            raise ValueError(
                f"`bias_correction=false` must come without `optimizer={optimizer}`, which always corrects. Received "
                "both; leave one of them out."
            )
        names = [name for name in names if name != "bias_correction"]
    return AdamConfig(**{name: settings.get(name) for name in names})
