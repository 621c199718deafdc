"""Flags of devices: on what a run computes, and how exactly."""

from absl import flags

FLAGS = flags.FLAGS


def define_devices():
    """On what a run computes."""
    strategies = ("default", "mirrored", "multi_worker", "tpu")
    flags.DEFINE_enum("distribution_strategy", "default", strategies, "One device; all GPUs of this machine; those of "
                      "several machines, on each of which the same command runs; or a TPU. See "
                      "docs/distributed.md.")  # fmt: skip
    flags.DEFINE_list("worker_hosts", [], "With multi_worker: host:port of every worker, the same list everywhere; the "
                      "first one writes. Default: what the environment variable TF_CONFIG says.")  # fmt: skip
    flags.DEFINE_integer("task_index", None, "With --worker_hosts: which of them this is, from 0.", lower_bound=0)


def define_google_tpu():
    """google-research/bert's flags for Cloud TPUs."""
    flags.DEFINE_bool("use_tpu", False, "The same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "The Cloud TPU, by name or as grpc://host:port; default: those of this "
                        "machine.")  # fmt: skip
    flags.DEFINE_string("tpu_zone", None, "Its zone; default: this machine's.")
    flags.DEFINE_string("gcp_project", None, "Its project; default: this machine's.")
    flags.DEFINE_string("master", None, "Its address, instead of --tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8, "No effect here.")
    flags.DEFINE_integer("iterations_per_loop", 1000, "No effect here.")


def strategy_name() -> str:
    """Returns the name of the strategy: --use_tpu stands for one."""
    asked = "use_tpu" in FLAGS and FLAGS.use_tpu
    named = "default" if "distribution_strategy" not in FLAGS else FLAGS.distribution_strategy
    return "tpu" if asked and named == "default" else named


def apply_run_flags():
    """Sets what holds for the whole process: seed, determinism, precision. Returns (strategy, whether to use XLA).

    Raises:
        ValueError: the devices of the strategy cannot be had.
    """
    import keras
    import tensorflow as tf

    from bert_tf.training import distribution

    name = strategy_name()
    if "use_tpu" in FLAGS and FLAGS.use_tpu and name != "tpu":
        raise ValueError(f"--use_tpu must come with --distribution_strategy=tpu or without it. Received: {name!r}.")
    tpu = (FLAGS.tpu_name or FLAGS.master, FLAGS.tpu_zone, FLAGS.gcp_project) if name == "tpu" else ()
    strategy = distribution.make_strategy(name, FLAGS.worker_hosts, FLAGS.task_index, tpu)
    keras.utils.set_random_seed(FLAGS.seed)
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(FLAGS.precision)
    if name == "tpu":
        return strategy, False  # what runs on a TPU is compiled in any case, and as a whole
    return strategy, distribution.xla_by_default() if FLAGS.use_xla == "auto" else FLAGS.use_xla == "true"
