"""The settings of a program -> the `RunConfig` of its training."""

import os

from bert_tf.settings import Settings
from bert_tf.training.loop import RunConfig
from bert_tf.training.step import StepConfig


def make_run_config(settings: Settings, steps: int, warmup: int, use_xla: bool, identity: dict) -> RunConfig:
    """Returns what the settings of `flags.training.TRAINING` say of a run.

    Args:
        settings: of the program.
        steps: of the run.
        warmup: steps in which the rate rises.
        use_xla: compile the step.
        identity: what else decides the result, JSON values; a run that is continued must have the same.
    """
    start = settings.init_checkpoint
    return RunConfig(
        output_dir=settings.output_dir,
        train_batch_size=settings.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=settings.learning_rate,
        init_checkpoint=start,
        save_checkpoints_steps=settings.save_checkpoints_steps,
        keep_checkpoints=settings.keep_checkpoints,
        anew=settings.overwrite_output_dir,
        step=StepConfig(
            seed=settings.seed,
            accumulation=settings.gradient_accumulation_steps,
            use_xla=use_xla,
            scale_loss=settings.precision == "mixed_float16",
        ),
        settings={
            "precision": settings.precision,
            "init_checkpoint": start and os.path.realpath(start),
            **identity,
        },
    )
