"""Checks of fine-tuning settings, before the model and the examples are read."""

from bert_tf.runs.fine_tuning_files import check_test_file
from bert_tf.runs.fine_tuning_start import teacher_options
from bert_tf.runs.scored_answers import warn_of_teacher
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.fine_tuning_teacher import check_teacher
from bert_tf.training.tracking import check_tracking
from bert_tf.utils.settings import Settings, check_combinations


def check_settings(kind: type[FineTuningTask], settings: Settings):
    """Raises ValueError if settings contradict each other.

    Args:
        kind: the task.
        settings: of its fine-tuning.
    """
    check_combinations(task_flags(kind), settings)
    check_test_file(settings)
    check_tracking(settings.tracking)
    check_teacher(teacher_options(settings))
    warn_of_teacher(settings)
