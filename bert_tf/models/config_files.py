"""Finds configuration files and reads their JSON, before `EncoderConfig` interprets it."""

import functools
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.models import family_registry
from bert_tf.models.family_registry import FAMILIES
from bert_tf.models.keras_hub_config import OF_KERAS, from_keras_hub, keras_hub_keys
from bert_tf.models.lora import Lora
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import TASK_FILE as TASK_FILE

INPUT_POSITIONS, DECODER_POSITIONS = "bert/embeddings/position_embeddings", "cls/predictions/position_embeddings"
CONFIG_FILES = ("bert_config.json", "config.json")
# Of PEFT: settings and weights of LoRA adapters, and the older form of the weights.
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
GLINER_FILE = "gliner_config.json"
# Keys that Transformers writes and bert_tf copies, except in causal models of families for which Transformers has none.
OF_TRANSFORMERS = ("architectures", "transformers_version")


def find_config_file(path: str) -> str:
    """Returns the file at `path`, or the first of CONFIG_FILES in the directory `path`.

    Raises:
        ValueError: the directory contains none of them, or a GLiNER model.
    """
    if not os.path.isdir(path):
        return path
    check_not_gliner(path)
    for name in CONFIG_FILES:
        if os.path.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    check_not_adapters(path)
    there = sorted(os.listdir(path))[:20]
    raise ValueError(f"No configuration file in {path}: expected {' or '.join(CONFIG_FILES)}. It contains {there}.")


def check_not_gliner(directory: str):
    """Raises ValueError if a directory contains a GLiNER model, whose layers after the encoder are not supported."""
    if os.path.exists(os.path.join(directory, GLINER_FILE)):
        raise ValueError(
            f"GLiNER models, which find entities of any named type, are not supported; got {directory}, which "
            f"contains {GLINER_FILE}; use a model for token classification, or train one with `bert-tf train tagger`."
        )


def check_not_adapters(directory: str):
    """Raises ValueError if a directory without a model contains LoRA adapters; the message says how to merge them."""
    config = os.path.join(directory, ADAPTER_FILES[0])
    if not any(os.path.isfile(os.path.join(directory, name)) for name in ADAPTER_FILES):
        return
    remedy = "copy it again"
    base = read_object(config, "the configuration of an adapter in JSON", remedy).get("base_model_name_or_path")
    of_base = f", {brief(base)}" if base else ""
    raise ValueError(
        f"{directory} contains LoRA adapters without the model that they were trained on{of_base}. Merge them into it "
        f"with bert-tf model edit: `model={str(base or 'MODEL'):.200}`, `adapter={directory}`."
    )


def read_config_file(path: str) -> dict[str, Any]:
    """Reads a JSON configuration file; KerasHub presets are converted to our names.

    Raises:
        ValueError: the file is missing, or does not contain a JSON object.
    """
    if not os.path.exists(path):
        raise ValueError(f"BERT configuration file not found: {path}. Pass a file such as bert_config.json.")
    kind = "a BERT configuration in JSON, such as bert_config.json"
    values = read_object(path, kind, "correct the file, or `bert_config_file`")
    if "registered_name" not in values:  # of a KerasHub preset
        return values
    try:
        found = from_keras_hub(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    known = {*keras_hub_keys(found["model_type"]), *OF_KERAS}
    if unknown := sorted(values["config"].keys() - known):
        warn_of_unknown_keys(path, tuple(unknown))
    return found


def model_type_in(directory: str | os.PathLike) -> str | None:
    """Returns the `model_type` of the configuration in a directory; BERT's if it has none.

    Returns:
        A key of `family_registry.FAMILIES`, or None if the directory contains no configuration.

    Raises:
        ValueError: the file does not contain a JSON object, or its `model_type` is not supported.
    """
    path = _file_in(directory)
    if path is None:
        return None
    model_type = read_config_file(path).get("model_type", family_registry.DEFAULT)
    try:
        family_registry.family(model_type)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return model_type


def lora_in(directory: str | os.PathLike) -> Lora | None:
    """Returns the adapters of the configuration in a directory, or None if there are none.

    Raises:
        ValueError: the file does not contain a JSON object, or the adapters are invalid.
    """
    path = _file_in(directory)
    try:
        return path and Lora.of(read_config_file(path).get("lora"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def task_in(directory: str | os.PathLike) -> dict[str, Any] | None:
    """Returns the contents of the task.json next to a trained model, or None if there is none.

    A KerasHub preset has another file of this name, which is ignored.

    Raises:
        ValueError: it does not contain a JSON object.
    """
    path = os.path.join(os.fspath(directory), TASK_FILE)
    if not os.path.exists(path):
        return None
    values = read_object(path, "the description of a task", "use the task.json that training wrote")
    return None if "registered_name" in values else values


def tied_in(directory: str | os.PathLike) -> bool:
    """Returns whether the output layer is tied to the word embeddings; true unless the directory's configuration denies
    it.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    return path is None or read_config_file(path).get("tie_word_embeddings") is not False


def positions_in(directory: str | os.PathLike) -> str | None:
    """Returns our path of the table of absolute positions: the input's, or the mask decoder's; None if neither is used.

    Without positions in the input, a file may contain the table of a decoder that only pretraining has, which is read
    if a configuration in the directory has `enhanced_mask_decoder`.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    values = {} if path is None else read_config_file(path)
    if values.get("position_biased_input") is not False:
        return INPUT_POSITIONS
    return DECODER_POSITIONS if values.get("enhanced_mask_decoder") is True else None


def classes_in(directory: str | os.PathLike) -> list[str]:
    """Returns the class names, `architectures`, of the configuration in a directory; [] if it has none.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    named = read_config_file(path).get("architectures") if path else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def is_projected_in(directory: str | os.PathLike) -> bool:
    """Returns whether embeddings and layers differ in width; true unless the directory's configuration denies it.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    values = {} if path is None else read_config_file(path)
    return "embedding_size" not in values or values["embedding_size"] != values.get("hidden_size")


def is_decoder_in(directory: str | os.PathLike) -> bool:
    """Returns whether the configuration in a directory, if any, is that of a causal (left-to-right) model.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    values = {} if path is None else read_config_file(path)
    return values.get("is_decoder") is True and not ignores_is_decoder(values)


def ignores_is_decoder(values: Mapping[str, Any]) -> bool:
    """Returns whether a configuration is that of a Hugging Face model whose encoder is bidirectional in any case."""
    row = FAMILIES.get(str(values.get("model_type", family_registry.DEFAULT)))
    return row is not None and row.causal_lm is None and any(key in values for key in OF_TRANSFORMERS)


def other_masked_lm_act_in(directory: str | os.PathLike) -> str | None:
    """Returns the hidden_act of the Hugging Face configuration in a directory if its masked-LM head does not use it.

    Returns None otherwise, and for configurations of bert_tf, whose heads always use it.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    if path is None or os.path.basename(path) == CONFIG_FILES[0]:
        return None
    values = read_config_file(path)
    row, act = FAMILIES.get(str(values.get("model_type"))), str(values.get("hidden_act", "gelu"))
    return act if row and row.masked_lm_act and act.lower() != row.masked_lm_act else None


def tokenizer_class_in(directory: str | os.PathLike) -> tuple[Any, str | None]:
    """Returns the tokenizer class named by the configuration in a directory, and its path; None if there is none.

    Raises:
        ValueError: the file does not contain a JSON object.
    """
    path = _file_in(directory)
    return (None, None) if path is None else (read_config_file(path).get("tokenizer_class"), path)


@functools.cache
def warn_of_unknown_keys(path: str, keys: tuple[str, ...]):
    """Logs, once per file, the unknown settings of a file, which have no effect."""
    logging.warning("%s: unknown settings are ignored: %s.", path, ", ".join(keys)[:500])


def _file_in(directory):
    """Returns the first of CONFIG_FILES in a directory, or None."""
    paths = (os.path.join(os.fspath(directory), name) for name in CONFIG_FILES)
    return next(filter(os.path.isfile, paths), None)
