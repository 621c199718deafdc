"""The configuration of a fine-tuning run."""

import dataclasses
import os

from bert_tf.data.dataset import MOST_POOL_BATCHES, usual_pool
from bert_tf.training.learning_rate import LayerRates
from bert_tf.training.loop import RunConfig
from bert_tf.training.lr_range_test import NUM_STEPS
from bert_tf.training.optimizers import AdamConfig, always_corrects
from bert_tf.training.scoring import batching_of
from bert_tf.training.step import StepConfig
from bert_tf.utils.names import AUTO
from bert_tf.utils.settings import Settings

# === Run config ===
# The settings of a program -> the `RunConfig` of its training.


# === Settings ===
# The settings of fine-tuning -> the `RunConfig` of its training: how many steps, and which layers move how fast.


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


# === Fine tuning ===


def fine_tuning_config(settings: Settings, num_layers: int, train, identity: dict, use_xla: bool) -> RunConfig:
    """Returns the `RunConfig` that the settings describe; what decides the result is part of its identity.

    Args:
        settings: the flags.
        num_layers: the encoder's blocks.
        train: the examples to train on, in rows, or None.
        identity: what of the task decides the result.
        use_xla: compile the step.

    Raises:
        ValueError: there are too few examples for one step, or a setting is out of range for the model.
    """
    num_examples, fingerprint = (0, 0) if train is None else (len(train), train.fingerprint())
    steps = int(num_examples / settings.train_batch_size * settings.num_train_epochs)
    if settings.do_train and not steps:
        raise ValueError(
            f"Training must have a step at least. Received {num_examples} examples x {settings.num_train_epochs} "
            f"epochs, fewer than one batch of {settings.train_batch_size}; lower `train_batch_size`."
        )
    if settings.learning_rate == AUTO:
        _check_range_test(settings, steps)
    warmup = int(steps * settings.warmup_proportion)
    identity = {"bucket_by_length": settings.bucket_by_length, "train_examples": fingerprint, **identity}
    pool = batching_of(settings, use_xla).pool_batches or usual_pool(num_examples, settings.train_batch_size)
    if train is not None and settings.bucket_by_length and pool != MOST_POOL_BATCHES:  # older runs wrote down none
        identity["bucket_batches"] = pool
    if settings.get("pack_examples"):
        if use_xla:
            raise ValueError(
                "`pack_examples` must come without XLA, which compiles a program for every shape. Received "
                f"`use_xla={settings.use_xla}`, with which it is on here; pass `use_xla=false`, or leave "
                "`pack_examples` out."
            )
        identity["pack_examples"] = True
    config = make_run_config(settings, steps, warmup, use_xla, identity)
    rates = layer_rates(settings, num_layers, num_examples)
    return dataclasses.replace(config, layer_rates=rates, reinit_layers=settings.reinit_layers)


def _check_range_test(settings, steps):
    """Raises ValueError where a range test would say nothing about the run."""
    reasons = {
        "come with `do_train`": None if settings.do_train else "it without; leave it out",
        "come without `unfreeze_epochs`": settings.unfreeze_epochs
        and "both: the layers that join later are not there to be tested; give a rate",
        f"be for a run of at least {NUM_STEPS} steps, as many as the test makes": steps < NUM_STEPS
        and f"one of {steps} steps; give a rate, such as `learning_rate=5e-5`",
    }
    for must, received in reasons.items():
        if received:
            raise ValueError(f"`learning_rate=auto` must {must}. Received {received}.")


def layer_rates(settings: Settings, num_layers: int, num_examples: int) -> LayerRates | None:
    """Returns which layers move and how fast; None: all alike.

    Args:
        settings: the flags.
        num_layers: the encoder's blocks.
        num_examples: to train on; 0 when nothing is trained.

    Raises:
        ValueError: a setting is out of range for this model, or two of them contradict each other.
    """
    given, unfreeze_steps = settings.freeze_layers, 0
    if settings.unfreeze_epochs:
        unfreeze_steps = max(1, int(num_examples / settings.train_batch_size * settings.unfreeze_epochs))
    freeze = int(given) if given.isascii() and given.isdigit() else given
    rates = LayerRates(num_layers, freeze, settings.layerwise_lr_decay, unfreeze_steps)
    if settings.reinit_layers:
        _check_reinit(settings, rates)
    if (rates.freeze_layers or rates.unfreeze_steps) and not settings.init_checkpoint:
        raise ValueError(
            "`freeze_layers` and `unfreeze_epochs` must come with `init_checkpoint`. Received none, where the "
            "frozen layers would be random; leave them out."
        )
    return None if rates.is_default else rates


def _check_reinit(settings, rates):
    """Raises ValueError where layers would start from random weights and stay so, or all of them would anyway."""
    if not settings.init_checkpoint:
        raise ValueError(
            f"`reinit_layers` must come with `init_checkpoint`. Received `reinit_layers={settings.reinit_layers}` "
            "alone, where all weights are random; leave it out."
        )
    free = 0 if rates.freeze_layers == "all" else rates.num_layers - rates.freeze_layers
    if settings.reinit_layers > free:
        raise ValueError(
            f"`reinit_layers` must be at most the model's layers that are not frozen, {free}. Received: "
            f"{settings.reinit_layers}."
        )
