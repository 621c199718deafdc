"""An export's directory: the version to use, and its loaded SavedModel."""

import os

import tensorflow as tf
from absl import logging

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.version_folders import SAVED_MODEL, explain_no_versions, find_versions
from bert_tf.utils.files import path_text


def find_export(model: str) -> str:
    """Returns the directory of a SavedModel: `model` itself, or its newest version.

    Raises:
        ValueError: there is no SavedModel.
    """
    model = path_text(model, "model")
    if os.path.isfile(os.path.join(model, SAVED_MODEL)):
        return model
    versions = find_versions(model) if os.path.isdir(model) else {}
    whole = {number: path for number, path in versions.items() if os.path.isfile(os.path.join(path, SAVED_MODEL))}
    if not whole:
        is_folder = os.path.isdir(model)
        found = "a directory without either" if is_folder else "not a directory"
        what = explain_no_versions(model) if is_folder else ""
        what = what or f"which is {found}; create one from a trained model with `bert-tf export`"
        raise ValueError(
            f"`model` must be a directory with {SAVED_MODEL}, or with numbered versions of it, as written by an "
            f"export; got {model}, {what}."
        )
    if len(whole) > 1:
        logging.info("Using version %d of %s, the newest of %d.", max(whole), model, len(whole))
    return whole[max(whole)]


def open_export(path: str):
    """Loads the `SavedModel` in a version's directory.

    Raises:
        ValueError: it cannot be loaded: a file is missing, damaged, or belongs to another model.
    """
    try:
        return SavedModel(path)
    except (ServingError, OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{path} is not a complete SavedModel: {error}. Export it again.") from error
