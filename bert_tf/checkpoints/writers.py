"""Writes a model in the format of another library: `write_model(directory, form, model)`, see FORMATS."""

from collections.abc import Callable
from typing import Any

from bert_tf.checkpoints.formats import keras_hub_models
from bert_tf.checkpoints.formats.google import check_google, write_google
from bert_tf.checkpoints.formats.hugging_face import check_hugging_face, write_hugging_face
from bert_tf.checkpoints.formats.own import check_own, write_own
from bert_tf.checkpoints.formats.sentence_transformers import check_sentence_transformers, write_sentence_transformers
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig

FORMATS: dict[str, Callable[[str, ModelArrays], Written]] = {
    "tf1": write_google,
    "huggingface": write_hugging_face,
    "sentence_transformers": write_sentence_transformers,
    "keras_hub": keras_hub_models.write_keras_hub,
    "bert_tf": write_own,
}
CHECKS: dict[str, Callable[[ModelArrays], Any]] = {
    "tf1": check_google,
    "huggingface": check_hugging_face,
    "sentence_transformers": check_sentence_transformers,
    "keras_hub": keras_hub_models.check_fits_keras_hub,
    "bert_tf": check_own,
}  # of the same formats: raise ValueError where one cannot hold a model, of whose arrays only shapes are looked at
WITH_OPTIMIZER = ("tf1", "bert_tf")  # the formats that can store an optimizer's state
WITH_TASK = ("bert_tf",)  # those that can store the whole state of a run: task.json, its state


def implied(form: str, config: EncoderConfig) -> dict[str, Any]:
    """Returns {field: value} of the settings that readers of a format assume; {} if it stores all of them."""
    row = family_registry.family(config.model_type).keras_hub
    return dict(row.implied) if row and form == "keras_hub" else {}


def adapted(form: str, model: ModelArrays) -> ModelArrays:
    """Returns an equivalent model with only the tables of a format; `remarks` describe what happened to the others."""
    return keras_hub_models.fold_unsupported(model) if form == "keras_hub" else model


def write_model(directory: str, form: str, model: ModelArrays) -> Written:
    """Writes all files of a model into an existing empty directory; see `files.whole_directory`.

    Args:
        directory: output directory.
        form: a key of FORMATS.
        model: the model.

    Raises:
        ValueError: the format cannot store the model, or does not exist.
        OSError: a file cannot be written.
    """
    if form not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}; got {form!r}.")
    if model.optimizer and form not in WITH_OPTIMIZER:
        raise ValueError(
            f"`with_optimizer` requires a format that can store the optimizer: {' or '.join(WITH_OPTIMIZER)}; "
            f"got {form}."
        )
    return FORMATS[form](directory, model)
