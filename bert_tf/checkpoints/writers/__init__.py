"""Writes a model in the form that another program reads: `write(directory, form, model)`, `form` a key of FORMATS."""

from collections.abc import Callable
from typing import Any

from bert_tf.checkpoints.writers import google, hugging_face, keras_hub, own, sentence_transformers
from bert_tf.checkpoints.writers.model import Model, Written
from bert_tf.models import families
from bert_tf.models.config import EncoderConfig

__all__ = ["CHECKS", "FORMATS", "Model", "Written", "implied", "write"]

FORMATS: dict[str, Callable[[str, Model], Written]] = {
    "tf1": google.write,
    "huggingface": hugging_face.write,
    "sentence_transformers": sentence_transformers.write,
    "keras_hub": keras_hub.write,
    "bert_tf": own.write,
}
CHECKS: dict[str, Callable[[Model], Any]] = {
    "tf1": google.check,
    "huggingface": hugging_face.check,
    "sentence_transformers": sentence_transformers.check,
    "keras_hub": keras_hub.check,
    "bert_tf": own.check,
}  # of the same formats: raise ValueError where one cannot hold a model, of whose arrays only shapes are looked at
WITH_OPTIMIZER = ("tf1", "bert_tf")  # the formats that have a place for an optimizer's state
WITH_TASK = ("bert_tf",)  # those that have one for all that a run of ours knows: task.json, its state


def implied(form: str, config: EncoderConfig) -> dict[str, Any]:
    """Returns field -> value of the settings that readers of a format take for given; {}: it says all of them."""
    row = families.family(config.model_type).keras_hub
    return dict(row.implied) if row and FORMATS.get(form) is keras_hub.write else {}


def write(directory: str, form: str, model: Model) -> Written:
    """Writes all files of a model into a directory that is there and empty; see `files.whole_directory`.

    Args:
        directory: where.
        form: a key of FORMATS.
        model: what.

    Raises:
        ValueError: the format cannot hold the model, or does not exist.
        OSError: a file cannot be written.
    """
    if form not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {form!r}.")
    if model.optimizer and form not in WITH_OPTIMIZER:
        raise ValueError(
            f"`with_optimizer` must come with a format that has a place for it, {' or '.join(WITH_OPTIMIZER)}. "
            f"Received: {form}."
        )
    return FORMATS[form](directory, model)
