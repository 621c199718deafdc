"""Writes a served model as a new version below EXPORT_DIR: whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export import card, litert
from bert_tf.export.quiet import quiet
from bert_tf.export.reproducible import renumber_functions, write_fingerprint
from bert_tf.export.run_facts import RunFacts
from bert_tf.export.served import CLASSIFY, REGRESS, ServedModel
from bert_tf.export.server_files import server_files, write_server_files
from bert_tf.export.warm_up import sample_requests, write_goldens, write_requests
from bert_tf.utils.files import write_text
from bert_tf.utils.names import SEQUENCES, SIDE_BY_SIDE

_ASIDE = "tmp-export-"
_METHODS = {"classify": CLASSIFY, "regress": REGRESS}


def export(
    served: ServedModel,
    export_dir: str | os.PathLike,
    options: Mapping[str, Any] | None = None,
    facts: RunFacts | None = None,
) -> str:
    """Writes `served` to `export_dir`/<version>, version one above the highest there, and returns that path.

    In the version's `assets.extra` are requests to warm up with, golden requests and a model card; beside the versions
    are the files that `server_files` makes, where there are none yet. For LiteRT there is a .tflite file and a card.

    Args:
        served: the model.
        export_dir: the model's directory as a server knows it.
        options: of its task, JSON values, for the card.
        facts: about its training, for the card.

    Raises:
        ValueError: the directory is itself a version or has versions of another kind, it cannot be written, or the disk
            is full; nothing new is left there.
    """
    export_dir = os.path.abspath(os.fspath(export_dir))
    for_servers = served.form.export_for != "litert"
    served.form.check_folder(export_dir)
    aside = None
    try:
        os.makedirs(export_dir, exist_ok=True)
        _tell_of_leftovers(export_dir)
        # TensorFlow Serving takes only names that are numbers for versions: it does not see this one.
        aside = tempfile.mkdtemp(prefix=_ASIDE, dir=export_dir)
        write = _write_version if for_servers else _write_for_litert
        write(aside, served, options or {}, facts or RunFacts())
        os.chmod(aside, 0o755)  # mkdtemp's directories are for the owner alone, a server is another user
        files = server_files(export_dir, served.task.config, served.max_seq_length) if for_servers else {}
        beside = write_server_files(export_dir, files)
        path = os.path.join(export_dir, str(1 + max([0, *versions(export_dir)])))
        _publish(aside, path, beside)
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The export must be written whole to {export_dir}. Received: {reason}; nothing of it was kept."
        ) from error
    finally:
        if aside and os.path.isdir(aside):
            shutil.rmtree(aside, ignore_errors=True)
    return path


def _tell_of_leftovers(export_dir):
    logging.info("Exporting to %s", export_dir)
    for name in sorted(os.listdir(export_dir)):
        if name.startswith(_ASIDE):
            logging.warning("%s is another export that is being made, or was stopped; then delete it.",
                            os.path.join(export_dir, name))  # fmt: skip


def _write_version(directory, served, options, facts):
    with quiet():
        functions = served.signatures()
        # Functions for gradients of our own would be numbered by what the process did, and nobody trains an export.
        without = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(served, directory, signatures=functions, options=without)
    signatures = _finish(os.path.join(directory, "saved_model.pb"), served)
    write_fingerprint(directory)
    requests = sample_requests(served)
    write_requests(directory, requests)
    write_goldens(directory, requests, functions)
    text = card.model_card(served, signatures, options, facts)
    write_text(os.path.join(directory, "assets.extra", card.FILE), text)


def _write_for_litert(directory, served, options, facts):
    signatures = litert.write_model(directory, served)
    write_text(os.path.join(directory, card.FILE), card.model_card(served, signatures, options, facts))


def _publish(aside, path, beside):
    """Gives a version its number, at which servers take it; where that fails, what was written for it goes too."""
    try:
        os.rename(aside, path)
    except OSError:
        for file in beside:
            os.remove(file)
        raise


def versions(export_dir: str) -> list[int]:
    """Returns the version numbers below `export_dir`, ascending."""
    return sorted(int(name) for name in os.listdir(export_dir) if name.isdecimal())


def _finish(path, served):
    """Gives the signatures on tf.Example the method names by which Classify and Regress know them.

    tf.saved_model.save writes the name of Predict into all of them. Functions get numbers that are always the same, and
    branches become a part of the graph when it is loaded. A graph with parts for several threads says so, and each how
    long its sequences are.

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
        if served.form.is_tensor_parallel:
            graph.collection_def[SIDE_BY_SIDE].bytes_list.value.append(b"1")
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "StatelessIf":  # called as a function it takes as long to start as ten operations
                    node.attr["_lower_using_switch_merge"].b = True
    renumber_functions(saved)
    with open(path, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))
    return dict(saved.meta_graphs[0].signature_def)
