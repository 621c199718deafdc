"""Exports on disk: the folder of the version that is meant, and the model in it, with errors that say what is wrong."""

import os

from absl import logging

from bert_tf.serving.server.version_folders import SAVED_MODEL, explain_no_versions, find_versions


def find_export(model: str) -> str:
    """Returns the folder of a SavedModel: `model` itself, or the newest of the numbered folders in it.

    Raises:
        ValueError: there is none.
    """
    if os.path.isfile(os.path.join(model, SAVED_MODEL)):
        return model
    versions = find_versions(model) if os.path.isdir(model) else {}
    whole = {number: path for number, path in versions.items() if os.path.isfile(os.path.join(path, SAVED_MODEL))}
    if not whole:
        is_folder = os.path.isdir(model)
        found = "a folder without either" if is_folder else "no folder"
        what = explain_no_versions(model) if is_folder else ""
        what = what or f"which is {found}; `bert-tf export` makes one of a trained model"
        raise ValueError(
            f"`model` must be a folder with {SAVED_MODEL}, or with numbered folders that hold one, as an export makes "
            f"it. Received {model}, {what}."
        )
    if len(whole) > 1:
        logging.info("Version %d of %s is meant, the newest of %d.", max(whole), model, len(whole))
    return whole[max(whole)]


def open_export(path: str):
    """Returns the `SavedModel` in a version's folder.

    Raises:
        ValueError: it cannot be loaded: a file is missing, damaged or not of this model.
    """
    import tensorflow as tf

    from bert_tf.serving.errors import ServingError
    from bert_tf.serving.server.saved_model import SavedModel

    try:
        return SavedModel(path)
    except (ServingError, OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{path} must be a whole SavedModel. Received: {error}; export it again.") from error
