"""The plan of fine-tuning: its batches, steps and learning rate, what decides the result, and what it would cost."""

import dataclasses

from bert_tf.checkpoints.label_rows import LabelRows
from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.pretraining.record_metadata import vocabulary_fingerprint
from bert_tf.runs.fine_tuning_start import warn_of_few_steps
from bert_tf.runs.run_config import make_run_config
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import EncodedExamples, FineTuningTask, TrainableTask
from bert_tf.tasks.fine_tuning_teacher import with_teacher
from bert_tf.tasks.options import TeacherOptions
from bert_tf.training.automatic_learning_rate import with_tested_rate
from bert_tf.training.batching import BatchSettings
from bert_tf.training.dry_run import try_training
from bert_tf.training.fine_tuning import fine_tuning_config
from bert_tf.training.memory_budget import available_memory
from bert_tf.training.run_config import RunConfig
from bert_tf.training.settings import FineTuningConfig
from bert_tf.utils.settings import options_of, part_of


def count_examples(examples, settings):
    """Returns the number of training examples over all epochs, or, without training, the number of all examples.

    With training, no other examples count, so resuming a run with different files to predict does not change it.
    """
    train = len(examples["train"]) * settings.num_train_epochs if settings.do_train else 0
    return train or sum(map(len, examples.values()))


def batch_settings(settings: FineTuningSettings, use_xla: bool) -> BatchSettings:
    """Returns how examples are batched, from `max_seq_length` and `BatchingSettings`."""
    pool, packs = settings.bucket_batches, settings.pack_examples
    return BatchSettings(settings.max_seq_length, settings.bucket_by_length, use_xla, pool, packs)


def plan_run(
    task: FineTuningTask,
    model: ModelDescription,
    settings: FineTuningSettings,
    label_rows: LabelRows | None,
    train: EncodedExamples | None,
    use_xla: bool,
) -> tuple[TrainableTask, RunConfig]:
    """Returns the task to train, which learns from a teacher if the settings name one, and the `RunConfig`.

    Call it in the scope of the strategy.

    Args:
        task: task of the run.
        model: files of the model.
        settings: settings of the run.
        label_rows: the rows of the initial checkpoint's head that the run keeps.
        train: the examples to train on, tokenized, or None.
        use_xla: compile the step.

    Raises:
        ValueError: the teacher does not match the task; also as in `plan_training`.
    """
    trainable, teacher_identity = with_teacher(task, model, part_of(settings, TeacherOptions))
    identity = make_identity(task, model, label_rows) | teacher_identity
    config = plan_training(settings, model.config.num_hidden_layers, train, identity, use_xla)
    warn_of_few_steps(label_rows, config.num_train_steps)
    return trainable, dataclasses.replace(config, label_rows=label_rows)


def plan_training(settings: FineTuningSettings, num_layers: int, train, identity: dict, use_xla: bool) -> RunConfig:
    """Returns the `RunConfig` that the settings describe; what decides the result is part of its identity.

    Args:
        settings: settings of the run.
        num_layers: the encoder's blocks.
        train: the examples to train on, tokenized, or None.
        identity: the task's part of what decides the result.
        use_xla: compile the step.

    Raises:
        ValueError: there are too few examples for one step, or a setting is out of range for the model.
    """
    run = make_run_config(settings, 0, 0, use_xla, identity)
    run = dataclasses.replace(run, step=dataclasses.replace(run.step, pack_examples=settings.pack_examples))
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


def describe_training_cost(task, config: RunConfig, train, settings: FineTuningSettings, use_xla: bool) -> str:
    """Returns the memory and time that the training would take, or states that nothing is trained."""
    if train is None:
        return "Nothing would be trained."
    if config.learning_rate is None:  # it is to be found by a test, and a step takes as long at any
        config = dataclasses.replace(config, learning_rate=RunConfig.learning_rate)
    batching = batch_settings(settings, use_xla)
    trial = try_training(task, config, train, batching, settings.precision, settings.gradient_checkpointing)
    return trial.lines(available_memory())
