"""What fine-tuning starts from: a model, earlier options, adapters, a teacher, rows of an earlier head."""

import dataclasses
from typing import NamedTuple

from absl import logging

from bert_tf.checkpoints.label_rows import few_names
from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.models.lora import Lora
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.runs.start_model import describe_model, task_paths
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.options import LabelOptions, RunOptions
from bert_tf.tasks.registry import find_task
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.utils.counts import word_for
from bert_tf.utils.settings import options_of, part_of


class StartPoint(NamedTuple):
    """What a run of fine-tuning starts from.

    Attributes:
        settings: settings of the run, with the options of a trained model where the user gave none.
        options: options of the task, from the settings.
        model: files of the model, with the adapters that are to be trained.
        earlier: the task that an earlier run left with the model; if None, there is none.
        trained: the same, or None if this run trains the model.
    """

    settings: FineTuningSettings
    options: RunOptions
    model: ModelDescription
    earlier: TrainedTask | None
    trained: TrainedTask | None


def find_start(kind: type[FineTuningTask], settings: FineTuningSettings) -> StartPoint:
    """Returns what the run of a task starts from.

    Raises:
        ValueError: there is no model, its parts do not fit together, or the settings do not fit it.
    """
    model = with_adapters(describe_model(settings), settings)
    earlier = find_task(task_paths(settings), model.config, kind)
    trained = None if settings.do_train else earlier
    settings = with_trained_options(kind, settings, trained, model)
    model.check_length(settings.max_seq_length)
    return StartPoint(settings, options_of(type(kind.options), settings), model, earlier, trained)


def with_trained_options(
    kind: type[FineTuningTask], settings: FineTuningSettings, trained: TrainedTask | None, model: ModelDescription
) -> FineTuningSettings:
    """Returns the settings with the options that a model was trained with, where the user gave none.

    Args:
        kind: the task.
        settings: settings of the run.
        trained: the model, as its task.json describes it; if None, it has none, or is trained now.
        model: its files.
    """
    options = options_of(type(kind.options), settings)
    if trained:
        adopted = kind.with_trained_defaults(options, trained)
    else:
        adopted = options if settings.do_train else kind.with_foreign_defaults(options, model)
    before = vars(options)
    return settings.adopt({name: value for name, value in vars(adopted).items() if value != before[name]})


def with_adapters(model: ModelDescription, settings: FineTuningSettings) -> ModelDescription:
    """Returns the model with the adapters that are to be trained; those of a trained model are in its kernels.

    Raises:
        ValueError: settings contradict each other, or the frozen weights would be random.
    """
    if not settings.lora_rank or not settings.do_train:
        return model
    if not settings.init_checkpoint:
        raise ValueError(
            f"`lora_rank={settings.lora_rank}` requires `init_checkpoint`: without it, the frozen weights would be "
            "random."
        )
    lora = Lora(settings.lora_rank, settings.lora_alpha or settings.lora_rank, tuple(settings.lora_targets))
    return dataclasses.replace(model, config=dataclasses.replace(model.config, lora=lora))


def find_label_rows(task, model, settings):
    """Returns the rows of the initial checkpoint's head that the run keeps, where it trains; otherwise None."""
    if not settings.do_train:
        return None
    return rows_by_label(task, model, settings.init_checkpoint, part_of(settings, LabelOptions).rename_labels)


_FEW_STEPS = 100  # with 20, a new label among trained ones was never predicted: docs/benchmarks/fine_tuning.md


def warn_of_few_steps(label_rows, steps: int):
    """Warns if the rows of some labels are new, others are kept, and there are few steps to learn the new ones.

    Args:
        label_rows: the result of `find_label_rows`.
        steps: steps of the run.
    """
    new = label_rows.to_dict()["new"] if label_rows and any(row is not None for row in label_rows.rows) else []
    if new and steps < _FEW_STEPS:
        logging.warning(
            "%d training steps are few for the new %s %s, whose weights in the head start at random: the model may "
            "never predict %s. Train for %d steps or more: raise `num_train_epochs`, or lower `train_batch_size`.",
            *(steps, word_for(len(new), "label", "labels"), few_names(new)),
            *(word_for(len(new), "it", "them"), _FEW_STEPS),
        )
