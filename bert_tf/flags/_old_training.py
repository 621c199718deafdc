"""What the flags of fine-tuning mean."""

import os

from absl import flags

FLAGS = flags.FLAGS


def model_paths() -> list[str | None]:
    """Returns where the model is described: the initial checkpoint, but first a trained one in the output directory.

    Training begins from the initial checkpoint, so then the order is the other way round.
    """
    trained = FLAGS.output_dir if os.path.isdir(FLAGS.output_dir) else None
    return [FLAGS.init_checkpoint, trained] if FLAGS.do_train else [trained, FLAGS.init_checkpoint]


def task_paths() -> list[str]:
    """Returns where the task of a model that is there already is described: for training, only in this run's folder."""
    if FLAGS.overwrite_output_dir:
        return []
    return [FLAGS.output_dir] if FLAGS.do_train else [path for path in model_paths() if path]


def adopt(values: dict):
    """Gives flags that were left out the values that a model was trained with.

    Args:
        values: {flag: value}; None leaves a flag as it is.
    """
    for name, value in values.items():
        if not FLAGS[name].present and value is not None:
            FLAGS[name].value = value


def run_config(num_examples: int, use_xla: bool, settings: dict):
    """Returns the `RunConfig` that a fine-tuning's flags describe, for so many examples (0 when nothing is trained).

    Raises:
        ValueError: there are too few examples for one step.
    """
    steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if FLAGS.do_train and not steps:
        raise ValueError(
            f"Training must have a step at least. Received {num_examples} examples x {FLAGS.num_train_epochs} epochs, "
            f"fewer than one batch of {FLAGS.train_batch_size}; lower --train_batch_size."
        )
    from bert_tf.flags._old import settings as read
    from bert_tf.training.run_config import make_run_config

    warmup = int(steps * FLAGS.warmup_proportion)
    return make_run_config(read(), steps, warmup, use_xla, {"bucket_by_length": FLAGS.bucket_by_length, **settings})
