"""The teacher of a task: a model that was fine-tuned for the same task, on the same labels."""

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.model_files import Description, directory_of
from bert_tf.tasks.distilled import DistilledTask
from bert_tf.tasks.protocols import Trainable
from bert_tf.tasks.registry import task_of
from bert_tf.tasks.task import FineTuned
from bert_tf.tasks.teachers.teacher import Teacher, check_temperature, open_teacher
from bert_tf.utils.settings import Settings

_OPTIONS = ("distillation_temperature", "distillation_weight")


def check_teacher(settings: Settings):
    """Raises ValueError where settings of a teacher contradict each other; a program need not have them."""
    if settings.get("teacher") is None:
        for name in _OPTIONS:
            if name in settings.given:
                raise ValueError(f"`{name}` must come with `teacher`. Received it alone; name the model that teaches.")
        return
    if not settings.do_train:
        raise ValueError(
            "`teacher` must come with `do_train`, for a trained model answers without it. Received it without; leave "
            "it out."
        )
    check_temperature(settings)


def with_teacher(task: FineTuned, student: Description, settings: Settings) -> tuple[Trainable, dict]:
    """Returns what is trained, and what of the teacher decides the result; without `teacher` the task itself.

    To be called in the scope of the strategy.

    Args:
        task: of the run.
        student: what it starts from.
        settings: with those of `flags.distillation.OF_TASKS`, if the task's program has them.

    Raises:
        ValueError: the settings do not fit the task, or the teacher cannot teach it.
    """
    if settings.get("teacher") is None:
        return task, {}
    if not task.has_temperature and "distillation_temperature" in settings.given:
        raise ValueError(
            "`distillation_temperature` must come with labels. Received it for values, which are compared as they "
            "are; leave it out."
        )
    teacher = _teacher(task, student, settings)
    options = {name: settings.get(name) for name in _OPTIONS}
    taught = DistilledTask(task, teacher, settings.distillation_temperature, settings.distillation_weight)
    return taught, {"teacher": teacher.digest, **options}


def _teacher(task, student, settings):
    path = settings.teacher
    checkpoint, described = open_teacher(path, student, settings.max_seq_length)
    other = task_of(directory_of(path), described).task
    if type(other) is not type(task):
        raise ValueError(
            f"`teacher` must be a model for the student's task, {task.name}. Received {path}, which is one for "
            f"{other.name}; name another."
        )
    if other.has_windows != task.has_windows:
        raise ValueError(
            "`teacher` must read long texts as the student does. Received "
            f"{path}, which {'reads' if other.has_windows else 'does not read'} them through windows; train both with "
            "the same `long_text`."
        )
    order = _order(path, other, task)
    other.every_window = task.every_window
    model, excuse = other.build_model(), heads.unused(other)
    return Teacher(checkpoint, described.config, model, excuse, other.features, order=order)


def _order(path, teacher, student):
    """Returns the place of each of the student's labels among the teacher's; None where they have no names."""
    theirs, own = teacher.labels, student.labels
    if (theirs is None) != (own is None) or theirs is not None and sorted(theirs) != sorted(own):
        raise ValueError(
            f"`teacher` must know the student's labels, {_names(own)}. Received {path} with {_names(theirs)}; name a "
            "model that was trained on the same labels."
        )
    return None if own is None else [theirs.index(label) for label in own]


def _names(labels):
    return "none but a value" if labels is None else ", ".join(labels)

