"""Writes a served model as a new version below EXPORT_DIR: whole, or not at all."""

import contextlib
import os
import shutil
import tempfile

import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.served import CLASSIFY, REGRESS, ServedModel
from bert_tf.export.warm_up import write_requests

_METHODS = {"classify": CLASSIFY, "regress": REGRESS}


def export(served: ServedModel, export_dir: str | os.PathLike) -> str:
    """Writes `served` to `export_dir`/<version>, version one above the highest there, and returns that path.

    Raises:
        ValueError: the directory cannot be written, or the disk is full; nothing new is left there.
    """
    export_dir = os.path.abspath(os.fspath(export_dir))
    aside = None
    try:
        os.makedirs(export_dir, exist_ok=True)
        # TensorFlow Serving takes only names that are numbers for versions: it does not see this one.
        aside = tempfile.mkdtemp(prefix="tmp-export-", dir=export_dir)
        with quiet():
            tf.saved_model.save(served, aside, signatures=served.signatures())
        _set_methods(os.path.join(aside, "saved_model.pb"))
        write_requests(aside, served.text_inputs, served.task.list_inputs)
        os.chmod(aside, 0o755)  # mkdtemp's directories are for the owner alone, a server is another user
        path = os.path.join(export_dir, str(1 + max([0, *versions(export_dir)])))
        os.rename(aside, path)
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The export must be written whole to {export_dir}. Received: {reason}; nothing of it was kept."
        ) from error
    finally:
        if aside and os.path.isdir(aside):
            shutil.rmtree(aside, ignore_errors=True)
    return path


def versions(export_dir: str) -> list[int]:
    """Returns the version numbers below `export_dir`, ascending."""
    return sorted(int(name) for name in os.listdir(export_dir) if name.isdecimal())


@contextlib.contextmanager
def quiet():
    """Keeps what TensorFlow tells of its own doings, a dozen lines for each export, out of the log."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _set_methods(path):
    """Gives the signatures on tf.Example the method names by which Classify and Regress know them.

    tf.saved_model.save writes the name of Predict into all of them.
    """
    saved = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        saved.ParseFromString(file.read())
    for graph in saved.meta_graphs:
        for name, method in _METHODS.items():
            if name in graph.signature_def:
                graph.signature_def[name].method_name = method
    with open(path, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))
