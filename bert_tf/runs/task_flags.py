"""The settings of fine-tuning a task, as a class and as flags."""

from bert_tf.runs.settings import FineTuningSettings, fine_tuning_settings
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.options import SelectionOptions, TeacherOptions
from bert_tf.tasks.registry import TASKS
from bert_tf.utils.settings import Flag, flags_of


def task_settings(kind: type[FineTuningTask]) -> type[FineTuningSettings]:
    """Returns the settings class of a task; that of a custom task is completed with what every task supports."""
    if kind in TASKS:
        return fine_tuning_settings(type(kind.options))
    teaches = kind.distillation_losses is not FineTuningTask.distillation_losses
    others = (SelectionOptions, TeacherOptions) if teaches else (SelectionOptions,)
    return fine_tuning_settings(type(kind.options), *others)


def task_flags(kind: type[FineTuningTask]) -> tuple[Flag, ...]:
    """Returns the flags of a task's command."""
    return flags_of(task_settings(kind))
