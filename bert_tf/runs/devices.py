"""Devices of a run: its strategy, seed, determinism, precision, and whether XLA compiles."""

from absl import logging

from bert_tf.utils.names import AUTO, PRECISIONS
from bert_tf.utils.settings import Settings


def strategy_name(settings: Settings) -> str:
    """Returns the name of the strategy, one of `names.STRATEGIES`: --use_tpu stands for one."""
    name = settings.get("distribution_strategy", "default")
    return "tpu" if name == "default" and settings.get("use_tpu") else name


def prepare_devices(settings: Settings):
    """Sets what holds for the whole process. To be called before TensorFlow is used for anything else.

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


def compiles(settings: Settings, examples: float) -> bool:
    """Returns whether steps are compiled with XLA; `use_xla=auto` depends on the devices and on the length of the run.

    Call it after `prepare_devices`.

    Args:
        settings: the flags.
        examples: how many the run trains on, over all epochs, or else evaluates and predicts.
    """
    from bert_tf.training import devices

    if strategy_name(settings) == "tpu":
        return False  # everything on a TPU is compiled anyway, and as a whole
    if settings.use_xla == AUTO and settings.get("pack_examples"):
        return False  # packed batches have too many shapes
    return devices.uses_xla(settings.use_xla, examples)


def with_precision(settings: Settings) -> Settings:
    """Returns the settings with the precision that `precision=auto` stands for, and logs it.

    A run that was started before keeps its precision, on another machine too.

    Raises:
        ValueError: several machines would each choose their own.
    """
    if settings.precision != AUTO:
        return settings
    from bert_tf.training.devices import fastest_precision
    from bert_tf.training.run_record import recorded_settings

    strategy = strategy_name(settings)
    if strategy == "multi_worker":
        raise ValueError(
            f"`precision=auto` cannot be combined with `distribution_strategy={strategy}`, whose workers must agree. "
            f"Pass one of {', '.join(PRECISIONS)}."
        )
    before = {} if settings.overwrite_output_dir else recorded_settings(settings.output_dir)
    if before.get("precision") in PRECISIONS:
        precision, reason = before["precision"], "as at the start of this run"
    else:
        precision, reason = fastest_precision(strategy == "tpu")
    logging.info("`precision=auto`: %s, %s.", precision, reason)
    return Settings({**settings.to_dict(), "precision": precision}, settings.given)
