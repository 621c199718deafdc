"""From a directory that a script trained into to a version that a server takes."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export import litert
from bert_tf.export.calibration import Forward, batches_of_texts, in_form, input_ranges, read_calibration_texts
from bert_tf.export.card import read_run
from bert_tf.export.form import DEFAULT, ExportOptions
from bert_tf.export.precision import build_with_weights
from bert_tf.export.saved_model import export
from bert_tf.export.served import ServingModule
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.registry import task_of


def export_trained(
    directory: str,
    export_dir: str | None = None,
    form: ExportOptions = DEFAULT,
    trained: TrainedTask | None = None,
    score: Callable[[Forward], dict[str, float]] | None = None,
    calibration: str | os.PathLike | Iterable[Mapping[str, tf.Tensor]] | None = None,
) -> str:
    """Exports the trained model in `directory` as the next version below `export_dir`, and returns its path.

    Args:
        directory: what a program's output_dir holds after training, or a sentence-transformers directory.
        export_dir: the model's directory as a server knows it; by default `form.folder` in `directory`.
        form: how.
        trained: its task; None: what task.json, or modules.json, says.
        score: what an export in int8 scores, for its card, from what computes the model's outputs; it raises
            ValueError where that is too little. None: nobody knows.
        calibration: the examples that set ranges, where the form takes them: a file of texts, or batches of the model's
            inputs. None: the scale of each row is found again, which takes longer.

    Raises:
        ValueError: no trained model is there, it cannot be explained so, there are no such examples, or the export
            cannot be written to that folder.
    """
    export_dir = export_dir or os.path.join(directory, form.folder)
    form.check_folder(export_dir)  # before the long work
    description = load_description([directory])
    trained = trained or task_of(directory, description)
    task = type(trained.task)(description.config, **trained.task.to_dict())  # one that was trained may have adapters
    texts, longest = trained.text_inputs, trained.max_seq_length
    is_of_texts = isinstance(calibration, (str, os.PathLike))
    if is_of_texts:
        examples = read_calibration_texts(calibration, task, texts)
        calibration = batches_of_texts(examples, task, description.tokenizer, texts, longest)
    checkpoint = open_checkpoint(directory)
    model, report = build_with_weights(task, checkpoint, form.variable_dtype)
    ranges = _find_ranges(form, task, task.for_serving(model) if is_of_texts else model, calibration)
    served = ServingModule(task, model, description.tokenizer, texts, longest, form=form, ranges=ranges)
    facts = read_run(directory, report.path)
    if form.dtype == "int8" and score:
        in_int8 = in_form(lambda features: model(features, training=False), form, ranges)
        in_int8 = litert.computed_by_litert(served) if form.export_for == "litert" else in_int8
        facts = dataclasses.replace(facts, int8_scores=score(in_int8))
    path = export(served, export_dir, trained.task.to_dict(), facts)
    logging.info("Exported %s as %s", report.path, path)
    return path


def _find_ranges(form, task, model, batches):
    """Returns the ranges that the examples show, or None."""
    if not form.takes_ranges:
        return None
    if batches is None:
        logging.info("The scale of each row is found anew; with `calibration_file` the export would be faster.")
        return None
    return input_ranges(lambda batch: model({name: batch[name] for name in task.features}, training=False), batches)
