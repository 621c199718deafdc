"""The last lines of a training command's log: its output files, and the next command."""

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from absl import logging

from bert_tf.runs.settings import FineTuningSettings
from bert_tf.utils import names
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path, is_child

if TYPE_CHECKING:
    from bert_tf.cli.export import ExportCommandSettings  # which logs the next command

# Files that a run may have left in its directory, in the order in which they are listed.
_LEFT = {
    "eval_results.txt": "metrics",
    "eval_predictions.tsv": "predictions next to the labels",
    "test_results.tsv": "probabilities for --predict_file",
    "predictions.jsonl": "predictions for --predict_file",
    "predictions.json": "answers by question id",
    "adapter": "LoRA adapters alone",
    "generator": "generator, also a model",
    "report.html": "report",
}


def log_end(folder: str, step: int, words: str, program: str, **flags):
    """Logs where a run's results are and what to do with them, unless the run is a step of a longer one.

    Args:
        folder: `output_dir` of the run.
        step: training step of its result.
        words: a description of the next step, such as "To serve the model".
        program: which command comes next, such as "train classifier".
        flags: of it.
    """
    if is_child():
        return
    files = [f"{name} ({what})" for name, what in _LEFT.items() if os.path.exists(os.path.join(folder, name))]
    logging.info("Files in %s: %s", folder, ", ".join([f"model.ckpt-{step} (model)", *files]))
    _log_command(words, program, flags)


def _log_command(words, program, flags):
    logging.info("%s: %s", words, shlex.join([*_bert_tf(), *program.split(), *command_line(flags)]))


def log_after_fine_tuning(settings: FineTuningSettings, step: int):
    """Does so for a fine-tuned model: it is exported next, or served where it is exported."""
    output_dir, for_servers = settings.output_dir, settings.export_for in names.SAVED_MODELS_FOR
    exports = for_servers and settings.export_dir or os.path.join(output_dir, "export")
    if settings.do_export and for_servers:
        log_end(output_dir, step, "To serve the model", "serve", **_served(exports, output_dir, settings))
    else:
        flags = {"model": output_dir, "export_dir": exports}
        log_end(output_dir, step, "To export the model for serving", "export", **flags)


def log_after_export(settings: "ExportCommandSettings"):
    """Logs the command that serves the newest version in `export_dir`; not where that is a step of a longer run."""
    if not is_child() and settings.export_for in names.SAVED_MODELS_FOR:
        _log_command("To serve the model", "serve", _served(settings.export_dir, settings.model, settings))


def _served(exports, model, settings):
    """Returns the flags of `serve` for the exports of a model, which may be in its subdirectory `export`."""
    exports, model = os.path.abspath(exports), os.path.abspath(model)
    name = os.path.basename(model if exports == os.path.join(model, "export") else exports)
    in_parts = settings.export_for == "cpu" and settings.export_threads > 1 and not settings.export_explanations
    threads = {"tensorflow_intra_op_parallelism": 1} if in_parts else {}
    return {"model_base_path": exports, "model_name": name} | threads


def log_after_pretraining(output_dir: str, step: int):
    """Does so for a pretrained model: it is fine-tuned next."""
    flags = {"train_file": "train.tsv", "eval_file": "dev.tsv", "init_checkpoint": output_dir}
    flags |= {"output_dir": f"{output_dir.rstrip(os.sep)}-fine-tuned", "do_train": True, "do_eval": True}
    log_end(output_dir, step, "To fine-tune the model on your own data", "train classifier", **flags)


def _bert_tf():
    """Returns the words that start bert_tf's programs in this environment."""
    if shutil.which("bert-tf"):
        return ["bert-tf"]
    script = os.path.join(os.path.dirname(sys.executable), "bert-tf")
    return [display_path(script)] if os.path.exists(script) else [sys.executable, "-m", "bert_tf"]
