"""The settings of fine-tuning a task, as flags."""

from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.options import SelectionOptions, TeacherOptions
from bert_tf.tasks.registry import TASKS
from bert_tf.utils.settings import Flag, flags_of


def task_flags(kind: type[FineTuningTask]) -> tuple[Flag, ...]:
    """Returns the flags of a task's command; those of a custom task are completed with what every task supports."""
    if kind in TASKS:
        return flags_of(fine_tuning_settings(type(kind.options)))
    teaches = kind.distillation_losses is not FineTuningTask.distillation_losses
    others = (SelectionOptions, TeacherOptions) if teaches else (SelectionOptions,)
    return flags_of(fine_tuning_settings(type(kind.options), *others))
