"""Checks of fine-tuning settings, before the model and the examples are read."""

from bert_tf.runs.fine_tuning_files import check_test_file
from bert_tf.runs.scored_answers import warn_of_teacher
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.fine_tuning_teacher import check_teacher
from bert_tf.tasks.options import TeacherOptions
from bert_tf.training.tracking import check_tracking
from bert_tf.utils.settings import check_combinations, flags_of, part_of


def check_settings(settings: FineTuningSettings):
    """Raises ValueError if settings contradict each other."""
    teaching = part_of(settings, TeacherOptions)
    check_combinations(flags_of(type(settings)), settings)
    check_test_file(settings)
    check_tracking(settings.tracking)
    check_teacher(teaching)
    warn_of_teacher(teaching)
