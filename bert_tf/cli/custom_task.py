"""The command `bert-tf train NAME` of a task that another package provides, with the flags of the task's options."""

import dataclasses
import inspect

from bert_tf.cli.fine_tuning_command import fine_tune
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.options import ACTIONS, RunOptions
from bert_tf.tasks.registry import load_custom_task
from bert_tf.utils.settings import flags_of


class CustomTaskCommand:
    """The command of a custom task, with the attributes that `cli.command_runner` reads from other commands' modules.

    Args:
        name: name of the task, and of its entry point.

    Raises:
        ValueError: the task is not available, or its options do not match its flags.
    """

    def __init__(self, name: str):
        self._kind = load_custom_task(name)
        options = type(self._kind.options)
        self.SETTINGS = task_settings(self._kind)
        self.FLAGS = flags_of(self.SETTINGS)
        names = {flag.name for flag in self.FLAGS}
        shared = {field.name for kind in (FineTuningSettings, RunOptions) for field in dataclasses.fields(kind)}
        if twice := sorted(_own_options(options) & shared):
            raise ValueError(
                f"Options of the task {name!r} have names of flags that all tasks have: {', '.join(twice)}. Rename "
                "them, or declare them as plain fields, which take the values of these flags."
            )
        fields = {field.name for field in dataclasses.fields(options) if "has_no_flag" not in field.metadata}
        if without := sorted(fields - names):
            raise ValueError(
                f"Options of the task {name!r} have no flag: {', '.join(without)}. Declare them with `option`."
            )
        self.__doc__ = inspect.getdoc(self._kind)

    def main(self, settings: FineTuningSettings):
        """Trains, evaluates, predicts and exports, as the flags specify."""
        fine_tune(self._kind, settings)


def _own_options(options):
    """Returns the names of the options that a task's class declares itself, apart from its files."""
    files = {f"{action}_file" for action in ACTIONS.values()}
    shared = [*map(id, RunOptions.__dataclass_fields__.values())]
    return {
        field.name
        for field in dataclasses.fields(options)
        if "flag" in field.metadata and field.name not in files and id(field) not in shared
    }
