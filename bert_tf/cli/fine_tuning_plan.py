"""The plan of a fine-tuning run, from its settings: the files to read, what is trained, in which batches and steps."""

import dataclasses
import filecmp
import itertools
import os

from absl import logging

from bert_tf.checkpoints.heads import few_names
from bert_tf.checkpoints.loading import Description
from bert_tf.cli.options_from_flags import make_run_config
from bert_tf.cli.program import in_flags
from bert_tf.models.lora import Lora
from bert_tf.pretraining.record_metadata import vocabulary_fingerprint
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.distillation import TeacherOptions
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.training.distribution import by_chief
from bert_tf.training.dry_run import try_training
from bert_tf.training.fine_tuning import FineTuningConfig, fine_tuning_config, with_tested_rate
from bert_tf.training.learning_rate import ALL
from bert_tf.training.memory import available_memory
from bert_tf.training.scoring import BatchSettings
from bert_tf.training.state import RunConfig
from bert_tf.utils.files import find_files
from bert_tf.utils.names import word_for
from bert_tf.utils.settings import Settings, options_of

# === Files ===
# Which files the run reads.


def with_dry_run_defaults(settings: Settings) -> Settings:
    """Returns the settings with `do_train` for a dry run without any `do_X`: its purpose is the cost of training."""
    if settings.get("dry_run") and not any(settings.get(f"do_{action}") for action in (*ACTIONS.values(), "export")):
        return settings.adopt({"do_train": True, "do_eval": bool(settings.get("eval_file"))})
    return settings


def splits_to_read(settings: Settings) -> list[str]:
    """Returns the kinds of splits that the run reads."""
    wanted = {kind: settings.get(f"do_{action}") for kind, action in ACTIONS.items()}
    wanted["dev"] = wanted["dev"] or bool(settings.get("keep_best"))
    wanted["final"] = settings.do_eval and bool(settings.get("test_file"))
    return [kind for kind, is_wanted in wanted.items() if is_wanted]


def check_test_file(settings: Settings):
    """Raises ValueError if a test file would not be scored, or is the file by which the run selects and fits."""
    path, other = settings.get("test_file"), settings.get("eval_file")
    if path is None:
        return
    if not settings.do_eval:
        raise ValueError("`test_file` requires `do_eval`. Add `do_eval`, or remove `test_file`.")
    for pair in itertools.product(find_files(path), find_files(other) if other else ()):
        if all(map(os.path.isfile, pair)) and filecmp.cmp(*pair, shallow=False):
            raise ValueError(
                f"`test_file` and `eval_file` must be different files. Received {' and '.join(pair)}, which have the "
                "same contents; remove `test_file`, or pass examples that are not used to select anything."
            )


# === Model ===
# What the model starts from: the options of an earlier training, adapters, a teacher, rows of an earlier head.


def with_trained_options(
    kind: type[FineTuningTask], settings: Settings, trained: TrainedTask | None, model: Description
) -> Settings:
    """Returns the settings with the options that a model was trained with, where the user gave none.

    Args:
        kind: the task.
        settings: of the run.
        trained: the model, as its task.json describes it; None: it has none, or is trained now.
        model: its files.
    """
    options = options_of(type(kind.options), settings)
    if trained:
        adopted = kind.with_trained_defaults(options, trained)
    else:
        adopted = options if settings.do_train else kind.with_foreign_defaults(options, model)
    before = vars(options)
    return settings.adopt({name: value for name, value in vars(adopted).items() if value != before[name]})


def with_adapters(model: Description, settings: Settings) -> Description:
    """Returns the model with the adapters that are to be trained; those of a trained model are in its kernels.

    Raises:
        ValueError: settings contradict each other, or the frozen weights would be random.
    """
    if not settings.lora_rank:
        for name in ("lora_alpha", "lora_targets"):
            if name in settings.given:
                raise ValueError(f"`{name}` requires `lora_rank`. Add `lora_rank` or remove `{name}`.")
        return model
    if not settings.do_train:
        return model
    if not settings.init_checkpoint:
        raise ValueError(
            f"`lora_rank={settings.lora_rank}` requires `init_checkpoint`: without it, the frozen weights would be "
            "random."
        )
    if settings.reinit_layers or settings.freeze_layers == ALL:
        name, value = ("reinit_layers", settings.reinit_layers) if settings.reinit_layers else ("freeze_layers", ALL)
        raise ValueError(
            f"`lora_rank` cannot be combined with `{name}={value}`, with which adapters have no use. Remove one."
        )
    lora = Lora(settings.lora_rank, settings.lora_alpha or settings.lora_rank, tuple(settings.lora_targets))
    return dataclasses.replace(model, config=dataclasses.replace(model.config, lora=lora))


def teacher_options(settings):
    """Returns the options of a teacher; the defaults, if the command has no such flags."""
    return options_of(TeacherOptions, settings) if "teacher" in settings else TeacherOptions()


def find_label_rows(task, model, settings):
    """Returns the rows of the initial checkpoint's head that the run keeps, where it trains; otherwise None."""
    renames = settings.get("rename_labels") or ()
    if settings.do_train:
        return rows_by_label(task, model, settings.init_checkpoint, renames)
    if renames:
        raise ValueError("`rename_labels` requires `do_train`. Add `do_train` or remove `rename_labels`.")
    return None


_FEW_STEPS = 100  # with 20, a new label among trained ones was never predicted: docs/benchmarks/fine_tuning.md


def warn_of_few_steps(label_rows, steps: int):
    """Warns if the rows of some labels are new, others are kept, and there are few steps to learn the new ones.

    Args:
        label_rows: the result of `find_label_rows`.
        steps: of the run.
    """
    new = label_rows.to_dict()["new"] if label_rows and any(row is not None for row in label_rows.rows) else []
    if new and steps < _FEW_STEPS:
        logging.warning(
            "%d training steps are few for the new %s %s, whose weights in the head start at random: the model may "
            "never predict %s. Train for %d steps or more: raise `num_train_epochs`, or lower `train_batch_size`.",
            *(steps, word_for(len(new), "label", "labels"), few_names(new)),
            *(word_for(len(new), "it", "them"), _FEW_STEPS),
        )


# === Training ===
# Batches, steps and learning rate, what decides the result, and what it would cost.


def check_stopping(settings: Settings):
    """Raises ValueError if a metric is to end the run, but none is named."""
    patience = settings.get("early_stopping")
    if patience and not settings.keep_best:
        raise ValueError(
            f"`early_stopping={patience}` requires `keep_best`, the metric that determines the best checkpoint. Add "
            "it, or remove `early_stopping`."
        )


def count_examples(examples, settings):
    """Returns the number of training examples over all epochs, or, without training, the number of all examples.

    With training, no other examples count, so resuming a run with different files to predict does not change it.
    """
    train = len(examples["train"]) * settings.num_train_epochs if settings.do_train else 0
    return train or sum(map(len, examples.values()))


def batch_settings(settings: Settings, use_xla: bool) -> BatchSettings:
    """Returns how examples are batched, from `max_seq_length`, `bucket_by_length` and `bucket_batches`.

    Raises:
        ValueError: the number of batches was given, but nothing is sorted.
    """
    by_length = settings.bucket_by_length
    if not by_length and "bucket_batches" in settings.given:
        raise ValueError("`bucket_batches` requires `bucket_by_length`; got `bucket_by_length=false`. Remove one.")
    return BatchSettings(settings.max_seq_length, by_length, use_xla, settings.get("bucket_batches"))


def plan_training(settings: Settings, num_layers: int, train, identity: dict, use_xla: bool) -> RunConfig:
    """Returns the `RunConfig` that the flags describe; what decides the result is part of its identity.

    Args:
        settings: the flags.
        num_layers: the encoder's blocks.
        train: the examples to train on, tokenized, or None.
        identity: what of the task decides the result.
        use_xla: compile the step.

    Raises:
        ValueError: there are too few examples for one step, or a setting is out of range for the model.
    """
    if settings.get("pack_examples") and use_xla:
        raise ValueError(
            "`pack_examples` cannot be combined with `use_xla=true`, which compiles a program for every shape. "
            "Remove one."
        )
    run = make_run_config(settings, 0, 0, use_xla, identity)
    config = options_of(FineTuningConfig, settings)
    return fine_tuning_config(run, config, num_layers, train, batch_settings(settings, use_xla))


def make_identity(task, model, label_rows):
    """Returns what determines the result, as JSON values: of the task, the model's files and the head's kept rows."""
    vocabulary = f"{model.tokenizer.vocab_size} tokens, SHA-256 {vocabulary_fingerprint(model.tokenizer.vocab)[:16]}"
    identity = {**model.config.to_dict(), "vocabulary": vocabulary, **task.identity()}
    identity |= {"lora": model.config.lora.to_dict()} if model.config.lora else {}
    return identity | ({"rename_labels": dict(label_rows.renamed)} if label_rows and label_rows.renamed else {})


def with_learning_rate(task, config, rows, settings, use_xla):
    """Returns the configuration with a learning rate, and the range test that found it; None if it was given."""
    if config.learning_rate is not None:
        return config, None
    return with_tested_rate(task, config, batch_settings(settings, use_xla).training(rows["train"], config))


def print_training_cost(task, config: RunConfig, train, settings: Settings, use_xla: bool):
    """Prints the memory and time that the training would take, or that there is none."""
    if train is None:
        by_chief(print, "Nothing would be trained.")
        return
    if config.learning_rate is None:  # it is to be found by a test, and a step takes as long at any
        config = dataclasses.replace(config, learning_rate=RunConfig.learning_rate)
    batching = batch_settings(settings, use_xla)
    trial = try_training(task, config, train, batching, settings.precision, settings.rematerialize)
    by_chief(print, in_flags(trial.lines(available_memory()), settings.to_dict()))
