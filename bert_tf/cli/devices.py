"""What holds for a whole process: its devices, the seed, determinism, precision."""

from bert_tf.utils.settings import Settings


def strategy_name(settings: Settings) -> str:
    """Returns the name of the strategy, one of `names.STRATEGIES`: --use_tpu stands for one."""
    name = settings.get("distribution_strategy", "default")
    return "tpu" if name == "default" and settings.get("use_tpu") else name


def prepare(settings: Settings):
    """Sets what holds for the whole process. To be called before TensorFlow is used for anything else.

    Returns:
        the tf.distribute strategy, and whether to compile steps with XLA.

    Raises:
        ValueError: the devices of the strategy are not available.
    """
    import keras
    import tensorflow as tf

    from bert_tf.training import distribution

    name = strategy_name(settings)
    if settings.use_tpu and name != "tpu":
        raise ValueError(f"--use_tpu must come with --distribution_strategy=tpu or without it. Received: {name!r}.")
    tpu = (settings.tpu_name or settings.master, settings.tpu_zone, settings.gcp_project) if name == "tpu" else ()
    strategy = distribution.make_strategy(name, settings.worker_hosts, settings.task_index, tpu)
    keras.utils.set_random_seed(settings.seed)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(settings.precision)
    if name == "tpu":
        return strategy, False  # everything on a TPU is compiled anyway, and as a whole
    return strategy, distribution.xla_by_default() if settings.use_xla == "auto" else settings.use_xla == "true"
