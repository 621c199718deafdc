"""The teacher of a fine-tuning task: a model fine-tuned for the same task and labels."""

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.loading import ModelDescription, directory_of
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.distilled_task import DistilledTask
from bert_tf.tasks.options import TeacherOptions
from bert_tf.tasks.registry import task_of
from bert_tf.tasks.teacher import Teacher, check_temperature, open_teacher
from bert_tf.tasks.trainable_task import TrainableTask


def check_teacher(options: TeacherOptions):
    """Raises ValueError if teacher options contradict each other."""
    if options.teacher is not None:
        check_temperature(options.distillation_temperature)


def with_teacher(
    task: FineTuningTask, student: ModelDescription, options: TeacherOptions
) -> tuple[TrainableTask, dict]:
    """Returns the task to train and the teacher's identity; without `teacher`, the task itself.

    Call it in the scope of the strategy.

    Args:
        task: task of the run.
        student: description of the initial model.
        options: options of the run.

    Raises:
        ValueError: the options or the teacher do not match the task.
    """
    if options.teacher is None:
        return task, {}
    if not task.has_temperature and options.where_given("distillation_temperature") is not None:
        raise ValueError(
            "`distillation_temperature` requires labels: for regression, values are compared directly. "
            "Remove it."
        )
    temperature, weight = options.distillation_temperature, options.distillation_weight
    teacher = _teacher(options.teacher, task, student, options.max_seq_length)
    identity = {"teacher": teacher.digest, "distillation_temperature": temperature, "distillation_weight": weight}
    return DistilledTask(task, teacher, temperature, weight), identity


def _teacher(path, task, student, max_seq_length):
    checkpoint, described = open_teacher(path, student, max_seq_length)
    other = task_of(directory_of(path), described).task
    if type(other) is not type(task):
        raise ValueError(
            f"`teacher` must be a model for the student's task, {task.name}. {path} is for {other.name}."
        )
    if other.has_windows != task.has_windows:
        raise ValueError(
            "`teacher` must read long texts like the student. "
            f"{path} {'uses' if other.has_windows else 'does not use'} windows; train both with the same "
            "`long_text`."
        )
    order = _order(path, other, task)
    other.every_window = task.every_window
    model, allow_unmatched = other.build_model(), heads.unused(other)
    return Teacher(checkpoint, described.config, model, allow_unmatched, other.features, order=order)


def _order(path, teacher, student):
    """Returns the index of each of the student's labels among the teacher's, or None without names."""
    theirs, own = teacher.labels, student.labels
    if (theirs is None) != (own is None) or theirs is not None and sorted(theirs) != sorted(own):
        raise ValueError(
            f"`teacher` must have the student's labels, {_names(own)}. {path} has {_names(theirs)}; use a model that "
            "was trained on the same labels."
        )
    return None if own is None else [theirs.index(label) for label in own]


def _names(labels):
    return "a number instead of labels" if labels is None else ", ".join(labels)
