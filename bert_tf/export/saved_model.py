"""Export of a served model as a new version below EXPORT_DIR, atomically."""

import contextlib
import copy
import functools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export import card
from bert_tf.export.counted_signatures import hide_token_counts
from bert_tf.export.fast_path import write_fast_path
from bert_tf.export.gpu import leave_out_of_xla
from bert_tf.export.litert import write_litert
from bert_tf.export.other_runtimes import write_onnx, write_openvino
from bert_tf.export.quiet_logs import quiet
from bert_tf.export.run_facts import RunFacts
from bert_tf.export.sample_requests import requests_of_shapes, sample_requests, write_goldens, write_requests
from bert_tf.export.server_files import server_files, write_server_files
from bert_tf.export.serving_module import CLASSIFY, REGRESS, ServingModule
from bert_tf.models.config_files import TASK_FILE
from bert_tf.serving.exports import open_export
from bert_tf.tokenization.table_registry import save_tables
from bert_tf.tokenization.tokenizer_json import remove_repeated_vocabulary
from bert_tf.utils import names
from bert_tf.utils.files import temporary_path, write_text
from bert_tf.utils.memory import return_free_memory
from bert_tf.utils.names import SEQUENCES, SIDE_BY_SIDE
from bert_tf.utils.tensorflow_internals import create_fingerprint

_ASIDE = "export"  # in the name of what is unfinished, which is no number: servers look for numbers
_OWN_GRADIENT = b"CustomGradient-"  # of tf.custom_gradient, whose function is not part of an export
_CONVERTERS = {"onnx": write_onnx, "openvino": write_openvino}
_METHODS = {"classify": CLASSIFY, "regress": REGRESS}


def export(
    served: ServingModule,
    export_dir: str | os.PathLike,
    task_options: Mapping[str, Any] | None = None,
    facts: RunFacts | None = None,
    litert_model: ServingModule | None = None,
) -> str:
    """Writes `served` to `export_dir`/<version>, one above the highest existing version, and returns that path.

    The version's `assets.extra` has warm-up requests, golden requests, task.json, the tokenizer and a model card. Next
    to the versions are the files of `server_files`, if new. For LiteRT, there are a .tflite file and a card, and for
    ONNX Runtime and OpenVINO the model, the tokenizer and a card.

    Args:
        served: the model.
        export_dir: the model's directory, which a server is pointed at.
        task_options: options of its task, JSON values, for task.json and the card.
        facts: about its training, for the card.
        litert_model: the same model for LiteRT, which answers few texts; if None, the SavedModel answers all.

    Raises:
        ValueError: the directory is itself a version or has versions of another kind, it cannot be written, or the disk
            is full, or another runtime answers differently; no partial export is left.
    """
    export_dir = os.path.abspath(os.fspath(export_dir))
    for_servers = served.options.export_for in names.SAVED_MODELS_FOR
    served.options.check_folder(export_dir)
    served.options.check_processor()
    logging.info("Exporting to %s", export_dir)
    try:
        os.makedirs(export_dir, exist_ok=True)
        with temporary_path(os.path.join(export_dir, _ASIDE)) as aside:
            os.mkdir(aside)
            if for_servers:
                _write_version(aside, served, task_options or {}, facts or RunFacts(), litert_model)
            else:
                _write_model(aside, served, task_options or {}, facts or RunFacts())
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


def _write_version(directory, served, task_options, facts, litert_model):
    with quiet():
        functions = served.signatures(for_file=True)
        # Exports are not trained, so the functions for custom gradients are left out.
        without = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(served, directory, functions, without)
        if served.constants:  # that these functions do not have
            functions = served.signatures()
    signatures = _finish(os.path.join(directory, "saved_model.pb"), served)
    with open(os.path.join(directory, "fingerprint.pb"), "wb") as file:  # TensorFlow's was of the unmodified file
        file.write(create_fingerprint(directory))
    requests = sample_requests(served)
    more = requests_of_shapes(served) if served.options.export_for == "gpu" else []
    write_requests(directory, requests + more)
    write_goldens(directory, requests, functions)
    if litert_model:
        del functions
        with _answer_texts(directory, served.text_inputs) as answer_texts:
            write_fast_path(directory, litert_model, task_options, answer_texts)
    extra = os.path.join(directory, "assets.extra")
    write_text(os.path.join(extra, TASK_FILE), json.dumps({"task": served.task.name, **task_options}, indent=1) + "\n")
    write_export_tokenizer(os.path.join(directory, names.TOKENIZER_FOLDER), served.tokenizer)
    write_text(os.path.join(extra, card.FILE), card.model_card(served, signatures, task_options, facts))


def write_export_tokenizer(folder, tokenizer):
    """Writes the tokenizer as the server reads it to a new directory."""
    os.makedirs(folder)
    save_tables(tokenizer, folder)
    remove_repeated_vocabulary(folder, tokenizer)


@contextlib.contextmanager
def _answer_texts(directory, text_inputs):
    """Yields the text signature of the SavedModel in a directory, which is loaded when it is first called.

    In memory, its weights may be variables, which are slower than the constants of the file.
    """
    with contextlib.ExitStack() as stack:

        @functools.cache
        def loaded():
            return_free_memory()  # of LiteRT's converter
            model = stack.enter_context(contextlib.closing(open_export(directory)))
            model.token_counts.warns = False  # the sample texts may consist of unknown tokens
            return model

        def answer(*texts):
            signature = loaded().signatures["serving_default"]
            named = zip(text_inputs, texts, strict=True)
            feeds = {signature.inputs[name].tensor: np.asarray(text) for name, text in named}
            fetches = [each.tensor for each in signature.outputs.values()]
            return dict(zip(signature.outputs, loaded().run(feeds, fetches), strict=True))

        yield answer


def _write_model(directory, served, task_options, facts):
    """Writes a version that is no SavedModel."""
    if convert := _CONVERTERS.get(served.options.export_for):
        signatures = convert(directory, served)
    else:
        signatures = write_litert(directory, served, task_options)
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
    loaded. Each graph records the lengths and numbers of `Sequences`, and its number of parallel parts, if any.

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
        of_text = served.task.sequences_of_text
        declared = [served.positions, tokens, *(() if of_text == (1, 0) else of_text)]  # earlier servers read only two
        graph.collection_def[SEQUENCES].int64_list.value.extend(declared)
        hide_token_counts(graph)
        if served.constants:
            served.constants.fill(graph)
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
    # Copies: the originals would keep all of the file in memory.
    return {name: copy.deepcopy(each) for name, each in saved.meta_graphs[0].signature_def.items()}
