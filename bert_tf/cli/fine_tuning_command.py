"""What the commands of all tasks do: fine-tune, and say what comes next."""

from bert_tf.cli.command_runner import in_flags
from bert_tf.cli.next_command import log_after_fine_tuning
from bert_tf.runs.run_task import run_task
from bert_tf.tasks.base import FineTuningTask
from bert_tf.training.workers import is_chief
from bert_tf.utils.settings import Settings


def fine_tune(kind: type[FineTuningTask], settings: Settings):
    """Trains, evaluates, predicts and exports a task, as the flags say; arguments and errors as in `run_task`."""
    run = run_task(kind, settings, lambda text: print(in_flags(text, settings.to_dict())))
    if run and settings.do_train and is_chief(run.strategy):
        log_after_fine_tuning(settings, run.trainer.global_step)
