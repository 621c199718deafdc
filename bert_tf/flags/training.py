"""Flags of training, and the `RunConfig` that they mean."""

import os

from absl import flags

from bert_tf.flags.devices import define_devices

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


def define_run(train_batch_size=32, learning_rate=5e-5):
    """Fine-tuning: what is done, where it goes, and how a step is made."""
    define_training(train_batch_size, learning_rate)
    flags.DEFINE_bool("do_predict", False, "Answer for examples without labels.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples at a time in --do_predict.", lower_bound=1)
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training examples.", lower_bound=0)
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps in which the rate rises.", 0, 1)
    flags.DEFINE_bool("bucket_by_length", True, "Batch examples of similar lengths and pad to the longest only.")


def define_training(train_batch_size=32, learning_rate=5e-5):
    """Training of any kind: where it goes, and how a step is made."""
    flags.DEFINE_string("output_dir", None, "Where checkpoints, scores and predictions go.", required=True)
    flags.DEFINE_bool("overwrite_output_dir", False, "With --do_train: remove an earlier run there and begin anew. "
                      "Without it, a run that was interrupted goes on.")  # fmt: skip
    flags.DEFINE_bool("do_train", False, "Train.")
    flags.DEFINE_bool("do_eval", False, "Score on held-out examples.")
    flags.DEFINE_integer("train_batch_size", train_batch_size, "Examples a step, over all devices.", lower_bound=1)
    flags.DEFINE_integer("eval_batch_size", 8, "Examples at a time in --do_eval.", lower_bound=1)
    flags.DEFINE_float("learning_rate", learning_rate, "The peak of Adam's rate.", lower_bound=0)
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between two checkpoints.", lower_bound=1)
    flags.DEFINE_integer("keep_checkpoints", 5, "How many of the last checkpoints stay.", lower_bound=1)
    flags.DEFINE_integer("gradient_accumulation_steps", 1, "Cut each batch into so many parts, to save memory; the "
                         "result stays the same.", lower_bound=1)  # fmt: skip
    flags.DEFINE_bool("rematerialize", False, "Compute activations again in the backward pass, to save memory.")
    flags.DEFINE_enum("precision", "float32", PRECISIONS, "What layers compute in; weights stay float32.")
    flags.DEFINE_enum("use_xla", "auto", ("auto", "true", "false"), "Compile with XLA; auto: with a GPU or TPU only.")
    define_devices()
    flags.DEFINE_integer("seed", 0, "Of the new weights, the order of the examples and dropout.", lower_bound=0)
    flags.DEFINE_bool("deterministic", False, "The same command gives the same weights, bit for bit; may be slower.")


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
    warmup = int(steps * FLAGS.warmup_proportion)
    return make_run_config(steps, warmup, use_xla, {"bucket_by_length": FLAGS.bucket_by_length, **settings})


def make_run_config(steps: int, warmup: int, use_xla: bool, settings: dict):
    """Returns the `RunConfig` of so many steps; `settings` are what else decides the result."""
    from bert_tf.training.loop import RunConfig
    from bert_tf.training.step import StepConfig

    return RunConfig(
        output_dir=FLAGS.output_dir,
        train_batch_size=FLAGS.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=FLAGS.learning_rate,
        init_checkpoint=FLAGS.init_checkpoint,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        keep_checkpoints=FLAGS.keep_checkpoints,
        anew=FLAGS.overwrite_output_dir,
        step=StepConfig(
            seed=FLAGS.seed,
            accumulation=FLAGS.gradient_accumulation_steps,
            use_xla=use_xla,
            scale_loss=FLAGS.precision == "mixed_float16",
        ),
        settings={
            "precision": FLAGS.precision,
            "init_checkpoint": FLAGS.init_checkpoint and os.path.realpath(FLAGS.init_checkpoint),
            **settings,
        },
    )
