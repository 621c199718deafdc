"""The configuration of training, made of the settings of a run."""

import dataclasses
import os
from typing import TYPE_CHECKING

from bert_tf.runs.settings import FineTuningSettings, PretrainingSettings
from bert_tf.utils import names
from bert_tf.utils.settings import options_of

if TYPE_CHECKING:
    from bert_tf.training.run_config import RunConfig


def make_run_config(
    settings: FineTuningSettings | PretrainingSettings,
    steps: int,
    warmup: int,
    use_xla: bool,
    identity: dict,
    optimizer: str = "adamw",
) -> "RunConfig":
    """Returns the `RunConfig` that the settings of all runs describe.

    Args:
        settings: settings of the run.
        steps: steps of the run.
        warmup: steps in which the learning rate rises.
        use_xla: compile the step.
        identity: what decides the result, apart from these and the settings that are declared to, as JSON values; a
            resumed run must have the same.
        optimizer: name in `OPTIMIZERS`.

    Raises:
        ValueError: a number for the optimizer is out of range, or one was given that the optimizer does not take.
    """
    from bert_tf.training.run_config import RunConfig
    from bert_tf.training.step import StepConfig

    start = settings.init_checkpoint
    own = {"init_checkpoint": start and os.path.realpath(start)}
    return RunConfig(
        output_dir=settings.output_dir,
        train_batch_size=settings.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=None if settings.learning_rate == names.AUTO else settings.learning_rate,
        init_checkpoint=start,
        save_checkpoints_steps=settings.save_checkpoints_steps,
        keep_checkpoints=settings.keep_checkpoints,
        keep_optimizer=settings.keep_optimizer,
        overwrite=settings.overwrite_output_dir,
        optimizer=optimizer,
        schedule=settings.schedule,
        adam=_adam_config(settings, optimizer),
        step=StepConfig(
            seed=settings.seed,
            accumulation=settings.gradient_accumulation_steps,
            clip_norm=settings.clip_norm,
            use_xla=use_xla,
            scale_loss=settings.precision == "mixed_float16",
        ),
        settings={**settings.deciding_values(), **own, **identity},
    )


def _adam_config(settings, optimizer):
    from bert_tf.training.optimizers import always_corrects
    from bert_tf.training.settings import AdamConfig

    config = options_of(AdamConfig, settings)
    if always_corrects(optimizer):
        if settings.where_given("bias_correction") is False:
            raise ValueError(
                f"`bias_correction=false` cannot be combined with `optimizer={optimizer}`, which always corrects the "
                "bias. Remove one."
            )
        config = dataclasses.replace(config, bias_correction=AdamConfig.bias_correction)
    return config
