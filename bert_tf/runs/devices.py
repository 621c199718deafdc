"""Devices of a run: its strategy, seed, determinism, precision, and whether XLA compiles."""

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from absl import logging

from bert_tf.training.compilation_cache import log_compilation_cache, use_compilation_cache
from bert_tf.training.settings import DeviceSettings, TrainingSettings
from bert_tf.utils.names import AUTO, PRECISIONS
from bert_tf.utils.resources import has_nvidia_gpu

if TYPE_CHECKING:  # of tasks, which commands that only need `strategy_name` do not import
    from bert_tf.runs.settings import FineTuningSettings, PretrainingSettings

_Settings = TypeVar("_Settings", bound=TrainingSettings)


def strategy_name(settings: DeviceSettings) -> str:
    """Returns the name of the strategy, one of `names.STRATEGIES`: --use_tpu stands for one."""
    name = settings.distribution_strategy
    return "tpu" if name == "default" and settings.use_tpu else name


def keep_compiled_programs(settings: "FineTuningSettings | PretrainingSettings"):
    """Keeps the programs that XLA compiles, if it may compile, in `compilation_cache_dir`; a dry run writes nothing.

    Call it before TensorFlow looks for devices: in a command, before TensorFlow is imported.

    Raises:
        ValueError, OSError: as `use_compilation_cache`.
    """
    may_compile = settings.use_xla == "true" or (settings.use_xla == AUTO and has_nvidia_gpu())
    if may_compile and strategy_name(settings) != "tpu" and not settings.dry_run:
        use_compilation_cache(settings.compilation_cache_dir)


def prepare_devices(settings: TrainingSettings):
    """Applies the settings of the whole process. Call it before TensorFlow is used for anything else.

    Returns:
        the tf.distribute strategy.

    Raises:
        ValueError: the devices of the strategy are not available.
    """
    import keras
    import tensorflow as tf

    from bert_tf.training import devices, strategies

    name = strategy_name(settings)
    if settings.use_tpu and name != "tpu":
        raise ValueError(f"`use_tpu` cannot be combined with `distribution_strategy={name}`. Remove one.")
    tpu = (settings.tpu_name or settings.master, settings.tpu_zone, settings.gcp_project) if name == "tpu" else ()
    strategy = strategies.make_strategy(name, settings.worker_hosts, settings.task_index, tpu)
    devices.warn_of_unused_gpu()
    keras.utils.set_random_seed(settings.seed)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(settings.precision)
    return strategy


def compiles(settings: TrainingSettings, examples: float) -> bool:
    """Returns whether steps are compiled with XLA; `use_xla=auto` depends on the devices and on the length of the run.

    Call it after `prepare_devices`.

    Args:
        settings: settings of the run.
        examples: how many the run trains on, over all epochs, or, without training, evaluates and predicts.
    """
    from bert_tf.training import devices

    if strategy_name(settings) == "tpu":
        return False  # everything on a TPU is compiled anyway, and as a whole
    uses_xla = devices.uses_xla(settings.use_xla, examples)
    if uses_xla:
        log_compilation_cache(settings.compilation_cache_dir)
    return uses_xla


def with_precision(settings: _Settings) -> _Settings:
    """Returns the settings with the precision that `precision=auto` stands for, as `choose_precision` does."""
    output_dir = None if settings.overwrite_output_dir else settings.output_dir
    precision = choose_precision(settings.precision, strategy_name(settings), output_dir)
    return dataclasses.replace(settings, precision=precision)


def choose_precision(precision: str, strategy: str, output_dir: str | None) -> str:
    """Returns the precision that "auto" stands for, and logs it; returns any other unchanged.

    Args:
        precision: one of `PRECISIONS`, or "auto".
        strategy: one of `names.STRATEGIES`.
        output_dir: directory of a run that was started before, which keeps its precision, even on another machine.

    Raises:
        ValueError: several machines would each choose a precision of their own.
    """
    if precision != AUTO:
        return precision
    from bert_tf.training.devices import fastest_precision
    from bert_tf.training.run_record import recorded_settings

    if strategy == "multi_worker":
        raise ValueError(
            f"`precision=auto` cannot be combined with `distribution_strategy={strategy}`, whose workers must agree. "
            f"Pass one of {', '.join(PRECISIONS)}."
        )
    precision = recorded_settings(output_dir).get("precision") if output_dir else None
    reason = "as at the start of this run"
    if precision not in PRECISIONS:
        precision, reason = fastest_precision(strategy == "tpu")
    logging.info("`precision=auto`: %s, %s.", precision, reason)
    return precision
