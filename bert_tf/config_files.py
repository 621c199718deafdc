"""The file that holds a configuration: where it is, and its JSON as it stands, before `EncoderConfig` reads it."""

import json
import os
from typing import Any

from bert_tf import families

CONFIG_FILES = ("bert_config.json", "config.json")


def find(path: str) -> str:
    """Returns the file at `path`, or the first of CONFIG_FILES in the directory `path`.

    Raises:
        ValueError: the directory holds none of them.
    """
    if not os.path.isdir(path):
        return path
    for name in CONFIG_FILES:
        if os.path.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    there = sorted(os.listdir(path))[:20]
    raise ValueError(f"{path} must hold one of {CONFIG_FILES}. Received a directory with: {there}.")


def read(path: str) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
        ValueError: there is no such file, or it does not hold one.
    """
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} must be a BERT configuration in JSON, such as bert_config.json. Received: {error}; correct "
            "the file, or `bert_config_file`."
        ) from error
    except FileNotFoundError as error:
        raise ValueError(
            f"A BERT configuration must be a file. There is none at {path}; name one, such as bert_config.json."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: A BERT configuration must be a JSON object. Received: {type(values).__name__}.")
    return values


def model_type_in(directory: str | os.PathLike) -> str | None:
    """Returns the `model_type` of the configuration in a directory, BERT's where it names none.

    Returns:
        a key of `families.FAMILIES`; None where the directory holds no configuration.

    Raises:
        ValueError: the file holds no JSON object, or there is no row for its `model_type`.
    """
    path = _path_in(directory)
    if path is None:
        return None
    model_type = read(path).get("model_type", families.DEFAULT)
    try:
        families.family(model_type)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return model_type


def tied_in(directory: str | os.PathLike) -> bool:
    """Returns whether the output layer is the table of word embeddings: yes, unless a configuration there says no.

    Raises:
        ValueError: the file holds no JSON object.
    """
    path = _path_in(directory)
    return path is None or read(path).get("tie_word_embeddings") is not False


def _path_in(directory):
    """Returns the first configuration file in a directory, None if there is none."""
    paths = (os.path.join(os.fspath(directory), name) for name in CONFIG_FILES)
    return next(filter(os.path.isfile, paths), None)
