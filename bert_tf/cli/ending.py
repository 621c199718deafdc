"""The last lines of a training program's log: what lies where, and the command that comes next."""

import os
import shlex
import shutil
import sys

from absl import logging

from bert_tf.utils.child_programs import is_child, shown
from bert_tf.utils.settings import Settings, command_line

# What a run may have left in its directory, in the order in which it is told.
_LEFT = {
    "eval_results.txt": "the scores",
    "eval_predictions.tsv": "the answers beside the labels",
    "test_results.tsv": "the probabilities for --predict_file",
    "predictions.jsonl": "the answers to --predict_file",
    "predictions.json": "the answers by question",
    "adapter": "the adapters alone",
    "generator": "the generator, a model too",
    "report.html": "the page of the run",
}


def tell_end(settings: Settings, step: int, words: str, program: str, **flags):
    """Logs where a run's results lie, and what to do with them; not where the run is a step of a longer one.

    Args:
        settings: of the run.
        step: of its result.
        words: say what comes next, such as "To serve it".
        program: which program comes next.
        flags: of it.
    """
    if is_child():
        return
    folder = settings.output_dir
    files = [f"{name} ({what})" for name, what in _LEFT.items() if os.path.exists(os.path.join(folder, name))]
    logging.info("In %s: %s", folder, ", ".join([f"model.ckpt-{step} (the model)", *files]))
    _tell_command(words, program, flags)


def _tell_command(words, program, flags):
    logging.info("%s: %s", words, shlex.join([*_bert_tf(), program, *command_line(flags)]))


def tell_next_of_task(settings: Settings, step: int):
    """Does so for a fine-tuned model: it is exported next, or served where it is exported."""
    for_servers = settings.get("export_for") != "litert"
    exports = for_servers and settings.export_dir or os.path.join(settings.output_dir, "export")
    if settings.do_export and for_servers:
        tell_end(settings, step, "To serve it", "serve", **_served(exports, settings.output_dir, settings))
    else:
        tell_end(settings, step, "To export it for a server", "export", model=settings.output_dir, export_dir=exports)


def tell_next_of_export(settings: Settings):
    """Logs the command that serves the newest version in `export_dir`; not where that is a step of a longer run."""
    if not is_child() and settings.get("export_for") != "litert":
        _tell_command("To serve it", "serve", _served(settings.export_dir, settings.model, settings))


def _served(exports, model, settings):
    """Returns the flags of `serve` for what lies in a folder, which may be the one called export in the model's own."""
    exports, model = os.path.abspath(exports), os.path.abspath(model)
    name = os.path.basename(model if exports == os.path.join(model, "export") else exports)
    in_parts = settings.get("export_for") == "cpu" and not settings.get("export_explanations")
    threads = {"tensorflow_intra_op_parallelism": 1} if in_parts else {}
    return {"model_base_path": exports, "model_name": name} | threads


def tell_next_of_pretraining(settings: Settings, step: int):
    """Does so for a pretrained model: it is fine-tuned next."""
    folder = settings.output_dir
    flags = {"train_file": "train.tsv", "eval_file": "dev.tsv", "init_checkpoint": folder}
    flags |= {"output_dir": f"{folder.rstrip(os.sep)}-fine-tuned", "do_train": True, "do_eval": True}
    tell_end(settings, step, "To fine-tune it on a table of your own", "run_classifier", **flags)


def _bert_tf():
    """Returns the words that start our programs here."""
    if shutil.which("bert-tf"):
        return ["bert-tf"]
    script = os.path.join(os.path.dirname(sys.executable), "bert-tf")
    return [shown(script)] if os.path.exists(script) else [sys.executable, "-m", "bert_tf"]
