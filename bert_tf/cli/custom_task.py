"""The command `bert-tf train NAME` of a task that another package provides, with the flags of the task's options."""

import dataclasses
import inspect

from bert_tf.cli.common_flags import FINE_TUNING, STOPPING, TEACHER
from bert_tf.cli.fine_tuning_command import fine_tune
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.options import flags_of
from bert_tf.tasks.registry import load_custom_task
from bert_tf.utils.settings import Flag

_FILES = (  # where the task's options do not describe them
    Flag("train_file", None, "Training examples."),
    Flag("eval_file", None, "Evaluation examples."),
    Flag("predict_file", None, "Examples to predict for."),
)


class CustomTaskCommand:
    """The command of a custom task: what `cli.program` reads of the module of any other command.

    Args:
        name: name of the task, and of its entry point.

    Raises:
        ValueError: the task is not available, or its options do not match its flags.
    """

    def __init__(self, name: str):
        self._kind = load_custom_task(name)
        teacher = self._kind.distillation_losses is not FineTuningTask.distillation_losses
        shared = (*FINE_TUNING, *STOPPING, *(TEACHER if teacher else ()))
        options = type(self._kind.options)
        own = flags_of(options)
        files = (flag for flag in _FILES if flag.name not in {each.name for each in own})
        self.FLAGS = (*shared, *files, *own)
        names = [flag.name for flag in self.FLAGS]
        fields = {field.name for field in dataclasses.fields(options) if "has_no_flag" not in field.metadata}
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"Options of the task {name!r} have names of flags that all tasks have: {', '.join(twice)}. Rename "
                "them, or declare them as plain fields, which take the values of these flags."
            )
        if without := sorted({field.removeprefix("given_") for field in fields} - {*names}):
            raise ValueError(
                f"Options of the task {name!r} have no flag: {', '.join(without)}. Declare them with `option`."
            )
        self.__doc__ = inspect.getdoc(self._kind)

    def main(self, settings):
        """Trains, evaluates, predicts and exports, as the flags say."""
        fine_tune(self._kind, settings)
