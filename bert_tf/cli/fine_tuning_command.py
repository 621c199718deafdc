"""Commands of the built-in tasks, and what the commands of all tasks do: fine-tune, and log the next command."""

import importlib
from typing import TYPE_CHECKING

from bert_tf.runs.devices import keep_compiled_programs
from bert_tf.runs.settings import FineTuningSettings, fine_tuning_settings
from bert_tf.tasks.built_in import BuiltInTask
from bert_tf.utils.settings import flags_of

if TYPE_CHECKING:
    from bert_tf.tasks.base import FineTuningTask


class FineTuningCommand:
    """The command of a built-in task, with the attributes that `cli.command_runner` reads from other commands' modules.

    Args:
        task: the task.
    """

    def __init__(self, task: BuiltInTask):
        self._task = task
        self.SETTINGS = fine_tuning_settings(task.load_options())
        self.FLAGS = flags_of(self.SETTINGS)
        self.__doc__ = importlib.import_module(f"bert_tf.tasks.{task.name}").__doc__

    def main(self, settings: FineTuningSettings):
        """Trains, evaluates, predicts and exports, as the flags specify."""
        keep_compiled_programs(settings)  # the next line imports TensorFlow
        fine_tune(self._task.load_task(), settings)


def fine_tune(kind: "type[FineTuningTask]", settings: FineTuningSettings):
    """Trains, evaluates, predicts and exports a task, as the flags specify; arguments and errors as in `run_task`."""
    # Here, because --help must not import TensorFlow.
    from bert_tf.cli.command_runner import in_flags
    from bert_tf.cli.next_command import log_after_fine_tuning
    from bert_tf.runs.run_task import run_task
    from bert_tf.training.workers import is_chief

    run = run_task(kind, settings, lambda text: print(in_flags(text, settings.to_dict())))
    if run and settings.do_train and is_chief(run.strategy):
        log_after_fine_tuning(settings, run.trainer.global_step)
