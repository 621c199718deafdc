"""Trained models: from the output directory of a training run to a version for servers."""

import dataclasses
import functools
import gc
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export import litert
from bert_tf.export.calibration import batches_of_texts, input_ranges, read_calibration_texts
from bert_tf.export.cpu.model import Forward, fast_model
from bert_tf.export.export_options import DEFAULT, ExportOptions, litert_obstacle
from bert_tf.export.precision import build_with_weights
from bert_tf.export.run_facts import read_run
from bert_tf.export.saved_model import export
from bert_tf.export.serving_module import ServingModule
from bert_tf.lite.text_model import ANSWERS
from bert_tf.models.attention import SelfAttention
from bert_tf.models.encoder import Encoder
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.registry import task_of
from bert_tf.tokenization.base_tokenizer import BaseTokenizer


class TrainedModel(NamedTuple):
    """A trained model with its weights, to be served.

    Attributes:
        path: its checkpoint.
        task: its task, without adapters, which are merged into the weights.
        model: the result of the task's `build_model`.
        tokenizer, text_inputs, max_seq_length: as in `ServingModule`.
    """

    path: str
    task: FineTuningTask
    model: keras.Model
    tokenizer: BaseTokenizer
    text_inputs: tuple[str, ...]
    max_seq_length: int

    def served(self, options: ExportOptions = DEFAULT, ranges: Any = None) -> ServingModule:
        """Returns the served model; arguments as in `ServingModule`."""
        last = self.text_inputs, self.max_seq_length
        return ServingModule(self.task, self.model, self.tokenizer, *last, options=options, ranges=ranges)


def load_trained_model(
    directory: str, trained: TrainedTask | None = None, options: ExportOptions = DEFAULT
) -> TrainedModel:
    """Loads the trained model in `directory`; arguments and errors as in `export_trained`."""
    description = load_description([directory])
    trained = trained or task_of(directory, description)
    task = type(trained.task)(description.config, **trained.task.to_dict())  # a trained task may have adapters
    if options.export_for in ("gpu", "litert") and hasattr(task, "every_window"):
        task.every_window = True  # otherwise, each number of windows with tokens would be a separate shape
    model, report = build_with_weights(task, open_checkpoint(directory), options.variable_dtype)
    if options.export_for == "litert":
        for layer in model._flatten_layers():
            if isinstance(layer, Encoder):
                layer.attends_whole = layer.counts_positions = layer.embeddings.keeps_position_floats = True
            if isinstance(layer, SelfAttention):  # GPUs of phones compute in float16
                layer.scales_first = options.dtype == "float16"
    inputs = trained.text_inputs, trained.max_seq_length
    return TrainedModel(report.path, task, model, description.tokenizer, *inputs)


def export_trained(
    directory: str,
    export_dir: str | None = None,
    options: ExportOptions = DEFAULT,
    trained: TrainedTask | None = None,
    score: Callable[[Forward], dict[str, float]] | None = None,
    calibration: str | os.PathLike | Iterable[Mapping[str, tf.Tensor]] | None = None,
) -> str:
    """Exports the trained model in `directory` as the next version below `export_dir`, and returns its path.

    Args:
        directory: the output_dir of a training run, a Hugging Face directory with a task head, or a
            sentence-transformers directory.
        export_dir: the model's directory, which a server is pointed at; by default `options.folder` in `directory`.
        options: options of the export.
        trained: its task; if None, as in task.json, config.json or modules.json.
        score: computes the metrics of the export, for its card, from a function of the model's outputs; raises
            ValueError if they are too low. It is called if the metrics in eval_results.txt are of another precision. If
            None, they are not measured.
        calibration: calibration examples, if the export uses them: a file of texts, or batches of the
            model's inputs. If None, dynamic scales per row, which are slower.

    Raises:
        ValueError: there is no trained model, it does not support the explanations, its tokenizer cannot be exported,
            there are no examples, or the export cannot be written.
    """
    export_dir = export_dir or os.path.join(directory, options.folder)
    options.check_folder(export_dir)  # before the long work
    found = load_trained_model(directory, trained, options)
    checkpoint, task, model = found.path, found.task, found.model
    found.tokenizer.check_exportable("An export")
    options.check(task)  # before calibration
    is_of_texts = isinstance(calibration, (str, os.PathLike))
    if is_of_texts:
        examples = read_calibration_texts(calibration, task, found.text_inputs)
        calibration = batches_of_texts(examples, task, found.tokenizer, found.text_inputs, found.max_seq_length)
    options.check_processor()
    ranges = _find_ranges(options, task, task.for_serving(model) if is_of_texts else model, calibration)
    served = found.served(options, ranges)
    facts = read_run(directory, checkpoint)
    for gap in facts.gaps(task.has_several_labels):
        logging.warning("%s", gap)
    lacks_scores = score and not facts.are_scores_in(options.dtype)
    if lacks_scores:
        forward = litert.computed_by_litert(served) if options.export_for == "litert" else None
        forward = forward or functools.partial(fast_model(model, options, ranges)[0], training=False)
        facts = dataclasses.replace(facts, export_scores=score(forward))
        del forward
    del found, model
    gc.collect()  # frees weights that `served` does not need
    litert_model = _for_litert(directory, trained, options, task)
    # In float32, LiteRT computes what was evaluated.
    if litert_model and lacks_scores and litert_model.options.dtype == "int8":
        facts = dataclasses.replace(facts, litert_scores=score(litert.computed_by_litert(litert_model)))
    path = export(served, export_dir, task.to_dict(), facts, litert_model)
    logging.info("Exported %s as %s", checkpoint, path)
    return path


def _for_litert(directory, trained, options, task) -> ServingModule | None:
    """Returns the model for LiteRT that is exported next to a SavedModel; None if the SavedModel answers all texts."""
    if not options.fast_path or task.name not in ANSWERS:
        return None
    if obstacle := litert_obstacle(task):
        logging.info("The SavedModel answers all texts: LiteRT cannot compute a model with %s.", obstacle)
        return None
    return load_trained_model(directory, trained, options.fast_path).served(options.fast_path)


def _find_ranges(options, task, model, batches):
    """Returns the ranges from the calibration examples, or None."""
    if not options.takes_ranges:
        return None
    if batches is None:
        logging.info(
            "Dynamic quantization: scales are computed per row in each request. Pass `calibration_file` for a faster "
            "export."
        )
        return None
    return input_ranges(model, ({name: batch[name] for name in task.features} for batch in batches))
