"""Exports a trained or served model as a new version below EXPORT_DIR, atomically."""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export import card, litert
from bert_tf.export.calibration import batches_of_texts, input_ranges, read_calibration_texts
from bert_tf.export.counted_signatures import hide_token_counts
from bert_tf.export.cpu.model import Forward, fast_model
from bert_tf.export.export_options import DEFAULT, ExportOptions
from bert_tf.export.gpu import leave_out_of_xla
from bert_tf.export.litert import quiet
from bert_tf.export.precision import build_with_weights
from bert_tf.export.run_facts import RunFacts, read_run
from bert_tf.export.sample_requests import requests_of_shapes, sample_requests, write_goldens, write_requests
from bert_tf.export.serving_module import CLASSIFY, REGRESS, ServingModule
from bert_tf.models.attention import SelfAttention
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.registry import task_of
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.utils.files import temporary_path, write_text
from bert_tf.utils.names import SEQUENCES, SIDE_BY_SIDE
from bert_tf.utils.tensorflow_internals import create_fingerprint

# === Server files ===
# Files next to a model's versions for tensorflow_model_server: settings that its flags read from files.
#
# Once written, they belong to the user and are never overwritten.


MODELS, BATCHING, MONITORING = "models.config", "batching_parameters.txt", "monitoring.config"

# On a CPU, small batches are as efficient as large ones; larger batches only add waiting time.
_TOKENS = 4096  # of the longest examples in a batch
_FEWEST, _MOST = 32, 256  # examples: our clients send 32 at a time, and larger requests are rejected
_OPERATIONS = 50e9  # per second on a CPU; a batch waits for more examples for a tenth of one example's time
_LONGEST_WAIT, _SHORTEST_WAIT = 10_000, 1_000  # microseconds


def server_files(export_dir: str, config: EncoderConfig, max_seq_length: int) -> dict[str, str]:
    """Returns {name of the file: text} for a model.

    Args:
        export_dir: where its versions are.
        config: configuration of its encoder.
        max_seq_length: its longest sequence.
    """
    return {
        MODELS: _models(os.path.abspath(export_dir)),
        BATCHING: _batching(config, max_seq_length),
        MONITORING: _MONITORING,
    }


def write_server_files(export_dir: str, texts: dict[str, str]) -> list[str]:
    """Writes those of `server_files` that do not exist yet, and logs which of the others differ.

    Returns:
        the paths of the new files.

    Raises:
        OSError: a file cannot be written; all new files are removed.
    """
    written = []
    try:
        for name, text in texts.items():
            path = os.path.join(export_dir, name)
            if not os.path.lexists(path):
                write_text(path, text)
                written.append(path)
            elif not _says(path, text):
                logging.info("Kept the existing %s; if you remove it, the next export writes one that fits the model.",
                path)
    except OSError:
        for path in written:
            os.remove(path)
        raise
    return written


def model_name(export_dir: str) -> str:
    """Returns the name under which `models.config` serves a model: its directory's name, as far as URLs allow it."""
    name = os.path.basename(os.path.abspath(export_dir))
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_") or "model"


def _says(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except (OSError, UnicodeDecodeError):
        return False


def _models(base_path):
    from tensorflow_serving.config import model_server_config_pb2

    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=model_name(base_path), base_path=base_path, model_platform="tensorflow")
    return _MODELS_COMMENT + text_format.MessageToString(config)


def _batching(config, max_seq_length):
    examples = min(_MOST, max(_FEWEST, _TOKENS // max_seq_length))
    wait = min(_LONGEST_WAIT, max(_SHORTEST_WAIT, round(1e5 * _work(config, max_seq_length) / _OPERATIONS)))
    return _BATCHING.format(examples=examples, wait=wait, tokens=max_seq_length)


def _work(config, length):
    """Estimates the number of operations for a sequence of this length in the encoder."""
    hidden, wide = config.hidden_size, config.intermediate_size
    of_token = 2 * (4 * hidden * hidden + 2 * hidden * wide) + 4 * length * hidden
    return config.num_hidden_layers * length * of_token


_MODELS_COMMENT = """\
# For the flag model_config_file of tensorflow_model_server. It requires the absolute path; in a container, the path
# inside it.
"""

_BATCHING = """\
# For the flag batching_parameters_file of tensorflow_model_server, next to the flag enable_batching.
# Chosen for examples of up to {tokens} tokens on CPUs. A GPU is for larger batches and longer waits.

# Examples in a batch. A single request with more is rejected.
max_batch_size {{ value: {examples} }}

# How long an example waits for others: a tenth of the model's time for the longest example.
batch_timeout_micros {{ value: {wait} }}

# Batches that may wait; further requests fail with UNAVAILABLE, so that no client waits for long.
max_enqueued_batches {{ value: 16 }}

# Concurrent batches. Each uses all cores; a second one fills the gaps.
num_batch_threads {{ value: 2 }}

# Do not set pad_variable_length_inputs. It pads with a tensor's first element, so that the padding of `ids` would be
# [CLS] with an input_mask of 1, and would count as tokens. Texts need no padding: the graph pads them.
"""

_MONITORING = """\
# For the flag monitoring_config_file of tensorflow_model_server: Prometheus finds the metrics at this path of the REST
# port.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


# === Saved model ===


_ASIDE = "export"  # in the name of what is unfinished, which is no number: servers look for numbers
_OWN_GRADIENT = b"CustomGradient-"  # of tf.custom_gradient, whose function is not part of an export
_METHODS = {"classify": CLASSIFY, "regress": REGRESS}


def export(
    served: ServingModule,
    export_dir: str | os.PathLike,
    task_options: Mapping[str, Any] | None = None,
    facts: RunFacts | None = None,
) -> str:
    """Writes `served` to `export_dir`/<version>, one above the highest existing version, and returns that path.

    The version's `assets.extra` has warm-up requests, golden requests, task.json and a model card. Next to the versions
    are the files of `server_files`, if new. For LiteRT, there are a .tflite file and a card.

    Args:
        served: the model.
        export_dir: the model's directory, which a server is pointed at.
        task_options: of its task, JSON values, for task.json and the card.
        facts: about its training, for the card.

    Raises:
        ValueError: the directory is itself a version or has versions of another kind, it cannot be written, or the disk
            is full; no partial export is left.
    """
    export_dir = os.path.abspath(os.fspath(export_dir))
    for_servers = served.options.export_for != "litert"
    served.options.check_folder(export_dir)
    served.options.check_processor()
    logging.info("Exporting to %s", export_dir)
    try:
        os.makedirs(export_dir, exist_ok=True)
        with temporary_path(os.path.join(export_dir, _ASIDE)) as aside:
            os.mkdir(aside)
            write = _write_version if for_servers else _write_for_litert
            write(aside, served, task_options or {}, facts or RunFacts())
            os.chmod(aside, 0o755)  # whatever the umask is, as a server runs as another user
            files = server_files(export_dir, served.task.config, served.max_seq_length) if for_servers else {}
            written = write_server_files(export_dir, files)
            path = os.path.join(export_dir, str(1 + max([0, *list_versions(export_dir)])))
            _publish(aside, path, written)
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"Could not write the export to {export_dir}: {reason}. Nothing was kept."
        ) from error
    return path


def _write_version(directory, served, task_options, facts):
    with quiet():
        functions = served.signatures()
        # Exports are not trained, so the functions for custom gradients are left out.
        without = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(served, directory, functions, without)
    signatures = _finish(os.path.join(directory, "saved_model.pb"), served)
    with open(os.path.join(directory, "fingerprint.pb"), "wb") as file:  # TensorFlow's was of the unmodified file
        file.write(create_fingerprint(directory))
    requests = sample_requests(served)
    more = requests_of_shapes(served) if served.options.export_for == "gpu" else []
    write_requests(directory, requests + more)
    write_goldens(directory, requests, functions)
    extra = os.path.join(directory, "assets.extra")
    write_text(os.path.join(extra, TASK_FILE), json.dumps({"task": served.task.name, **task_options}, indent=1) + "\n")
    write_text(os.path.join(extra, card.FILE), card.model_card(served, signatures, task_options, facts))


def _write_for_litert(directory, served, task_options, facts):
    signatures = litert.write_litert(directory, served)
    write_text(os.path.join(directory, card.FILE), card.model_card(served, signatures, task_options, facts))


def _publish(aside, path, written):
    """Gives a version its number, which makes it visible to servers; if that fails, its files are removed too."""
    try:
        os.rename(aside, path)
    except OSError:
        for file in written:
            os.remove(file)
        raise


def list_versions(export_dir: str) -> list[int]:
    """Returns the version numbers below `export_dir`, ascending."""
    return sorted(int(name) for name in os.listdir(export_dir) if name.isdecimal())


def _finish(path, served):
    """Sets the method names of tf.Example signatures that Classify and Regress require.

    tf.saved_model.save sets the method name of Predict for all of them. Branches are inlined when the graph is
    loaded. Each graph records its sequence length and its number of parallel parts, if any.

    Returns:
        {name: SignatureDef}.
    """
    saved = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        saved.ParseFromString(file.read())
    for graph in saved.meta_graphs:
        for name, method in _METHODS.items():
            if name in graph.signature_def:
                graph.signature_def[name].method_name = method
        tokens = 0 if served.task.reads_whole_texts else served.max_seq_length
        graph.collection_def[SEQUENCES].int64_list.value.extend([served.positions, tokens])
        hide_token_counts(graph)
        if served.options.parts > 1:
            graph.collection_def[SIDE_BY_SIDE].bytes_list.value.append(b"1")
        if served.options.export_for == "gpu":
            leave_out_of_xla(graph.graph_def)
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "StatelessIf":  # called as a function, it takes as long to start as ten operations
                    node.attr["_lower_using_switch_merge"].b = True
                if "_gradient_op_type" in node.attr and node.attr["_gradient_op_type"].s.startswith(_OWN_GRADIENT):
                    del node.attr["_gradient_op_type"]  # TensorFlow would log a warning for each when it loads them
    with open(path, "wb") as file:
        file.write(saved.SerializeToString())
    return dict(saved.meta_graphs[0].signature_def)


# === Trained models ===
# From the output directory of a training run to a version for servers.


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
    if options.export_for == "gpu" and hasattr(task, "every_window"):
        task.every_window = True  # otherwise, each number of windows with tokens would be a separate shape
    model, report = build_with_weights(task, open_checkpoint(directory), options.variable_dtype)
    if options.export_for == "litert" and options.dtype == "float16":  # with which GPUs of phones compute in float16
        for layer in model._flatten_layers():
            if isinstance(layer, SelfAttention):
                layer.scales_first = True
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
        options: of the export.
        trained: its task; None: as in task.json, config.json or modules.json.
        score: computes the metrics of the export, for its card, from a function of the model's outputs; raises
            ValueError if they are too low. It is called if the metrics in eval_results.txt are of another precision.
            None: they are not measured.
        calibration: calibration examples, if the export uses them: a file of texts, or batches of the
            model's inputs. None: dynamic scales per row, which are slower.

    Raises:
        ValueError: there is no trained model, it does not support the explanations, there are no examples, or the
            export cannot be written.
    """
    export_dir = export_dir or os.path.join(directory, options.folder)
    options.check_folder(export_dir)  # before the long work
    found = load_trained_model(directory, trained, options)
    task, model = found.task, found.model
    options.check(task)  # before calibration
    is_of_texts = isinstance(calibration, (str, os.PathLike))
    if is_of_texts:
        examples = read_calibration_texts(calibration, task, found.text_inputs)
        calibration = batches_of_texts(examples, task, found.tokenizer, found.text_inputs, found.max_seq_length)
    options.check_processor()
    ranges = _find_ranges(options, task, task.for_serving(model) if is_of_texts else model, calibration)
    served = found.served(options, ranges)
    facts = read_run(directory, found.path)
    for gap in facts.gaps(task.has_several_labels):
        logging.warning("%s", gap)
    if score and not facts.are_scores_in(options.dtype):
        forward = litert.computed_by_litert(served) if options.export_for == "litert" else None
        forward = forward or functools.partial(fast_model(model, options, ranges), training=False)
        facts = dataclasses.replace(facts, export_scores=score(forward))
    path = export(served, export_dir, task.to_dict(), facts)
    logging.info("Exported %s as %s", found.path, path)
    return path


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
