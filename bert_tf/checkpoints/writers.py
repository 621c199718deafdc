"""Writes a model in the form that another program reads: `write(directory, form, model)`, `form` a key of FORMATS."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from typing import Any

from bert_tf.checkpoints import hugging_face_writer, keras_hub_objects, name_maps, tf1
from bert_tf.checkpoints.store import CheckpointManager
from bert_tf.checkpoints.writer_base import ModelArrays, Written, with_head_class, write_json, write_labels
from bert_tf.models import families
from bert_tf.models.config import EncoderConfig

# === Google ===
# The directory of a release of google-research/bert: bert_model.ckpt, bert_config.json, vocab.txt.


CHECKPOINT = "bert_model.ckpt"
# The keys of its bert_config.json; what else an encoder of ours may be, its code does not know.
_KEYS = (
    "attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size", "initializer_range",
    "intermediate_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers", "type_vocab_size",
    "vocab_size",
)  # fmt: skip
_OTHER_DIALECT = ("model_type", "architectures", "transformers_version")
_EPSILON = 1e-12  # of every LayerNorm in its modeling.py
_NOT_GOOGLES = (
    "classifier/dense/", "cls/replaced_tokens/", "recurrent/", "tagger/", "bert/encoder/embedding_hidden_mapping_in/",
)  # fmt: skip


def write_google(directory: str, model: ModelArrays) -> Written:
    """Writes the files into a directory that is there.

    Raises:
        ValueError: google-research/bert has no such model; or the disk is full.
        OSError: a file cannot be written.
    """
    check_google(model)
    values, remarks = bert_config(model.config)
    named = float32_by_name(model)
    tf1.write_tensors(os.path.join(directory, CHECKPOINT), named | dict(model.optimizer))
    write_json(os.path.join(directory, "bert_config.json"), with_head_class(values, model))
    model.tokenizer.save(directory)
    write_labels(directory, model.labels)
    if added := model.tokenizer.added_tokens:
        remarks += (
            f"google-research/bert's own code reads vocab.txt alone, which has no place for the {len(added)} added "
            f"tokens such as {added[0].content!r}: it splits them. bert_tf and Transformers read them from "
            "tokenizer_config.json.",
        )
    return Written(tuple(f"{CHECKPOINT}.{end}" for end in ("data-00000-of-00001", "index")), (), remarks)


def float32_by_name(model: ModelArrays) -> dict:
    """Returns the name in a TF1 checkpoint -> float32 array, which is what all programs that read them expect."""
    return {name_maps.TF1.from_ours(path): array.astype("float32", copy=False) for path, array in model.arrays.items()}


def bert_config(config: EncoderConfig) -> tuple[dict, tuple[str, ...]]:
    """Returns what bert_config.json says, and remarks on what its reader must know.

    The word "gelu" is the tanh form in Google's files. So a model of the exact form keeps a key that Google's files
    lack, by which `EncoderConfig` and Transformers know that it means that; Google's own code would compute the other.
    """
    extra = {name: value for name, value in config.extra.items() if name not in _OTHER_DIALECT}
    values = {name: getattr(config, name) for name in _KEYS}
    if config.hidden_act == "gelu_tanh" and config.layer_norm_eps == _EPSILON:
        return {**extra, **values, "hidden_act": "gelu"}, ()
    if config.hidden_act not in ("gelu", "gelu_tanh") and config.layer_norm_eps == _EPSILON:
        return {**extra, **values}, ()
    remark = (
        f"google-research/bert's own code computes gelu by tanh and LayerNorm with {_EPSILON}; this model has "
        f"{config.hidden_act} and {config.layer_norm_eps}, which Transformers and bert_tf read from bert_config.json."
    )
    return {**extra, **values, "layer_norm_eps": config.layer_norm_eps}, (remark,)


def check_google(model: ModelArrays):
    """Raises ValueError where google-research/bert has no such model."""
    plain = EncoderConfig(**{name: getattr(model.config, name) for name in _KEYS})
    fields = [f.name for f in dataclasses.fields(plain) if f.name not in (*_KEYS, "extra", "layer_norm_eps")]
    other = [f"{name}={getattr(model.config, name)!r}" for name in fields
             if getattr(model.config, name) != getattr(plain, name)]  # fmt: skip
    strange = [path for path in model.arrays if path.startswith(_NOT_GOOGLES)]
    other += [] if model.config.type_vocab_size else ["type_vocab_size=0"]
    if other or strange:
        raise ValueError(
            "A checkpoint of google-research/bert must be one of a BERT as its modeling.py has it. Received: "
            f"{', '.join(other + strange[:5])}; take the format bert_tf."
        )


# === Own ===
# Our own directory, as the programs that train leave it: model.ckpt-<step>, bert_config.json, vocab.txt, task.json.


_STEP = "global_step"
_TASK_FILE = "task.json"
_SERVED = ("classifier/", "cls/squad/", "recurrent/", "tagger/")  # the heads that task.json may be about


def check_own(model: ModelArrays):
    """Raises ValueError where a weight has no name."""
    for path in model.arrays:
        name_maps.TF1.from_ours(path)


def write_own(directory: str, model: ModelArrays) -> Written:
    """Writes the files into a directory that is there.

    Raises:
        ValueError: the disk is full.
        OSError: a file cannot be written.
    """
    check_own(model)
    step = int(model.optimizer.get(_STEP, 0))
    prefix = CheckpointManager(directory).save(step, float32_by_name(model) | dict(model.optimizer))
    write_json(os.path.join(directory, "bert_config.json"), with_head_class(model.config.to_dict(), model))
    model.tokenizer.save(directory)
    write_labels(directory, model.labels)
    task = os.path.join(model.beside or directory, _TASK_FILE)
    is_about = model.recipe is not None or any(path.startswith(_SERVED) for path in model.arrays)
    if model.beside and os.path.exists(task) and is_about:
        shutil.copyfile(task, os.path.join(directory, _TASK_FILE))
    name = os.path.basename(prefix)
    return Written((f"{name}.data-00000-of-00001", f"{name}.index"))


# === Writers ===


__all__ = ["CHECKS", "FORMATS", "ModelArrays", "Written", "adapted", "implied", "write_model"]

FORMATS: dict[str, Callable[[str, ModelArrays], Written]] = {
    "tf1": write_google,
    "huggingface": hugging_face_writer.write_hugging_face,
    "sentence_transformers": hugging_face_writer.write_sentence_transformers,
    "keras_hub": keras_hub_objects.write_keras_hub,
    "bert_tf": write_own,
}
CHECKS: dict[str, Callable[[ModelArrays], Any]] = {
    "tf1": check_google,
    "huggingface": hugging_face_writer.check_hugging_face,
    "sentence_transformers": hugging_face_writer.check_sentence_transformers,
    "keras_hub": keras_hub_objects.check_fits_keras_hub,
    "bert_tf": check_own,
}  # of the same formats: raise ValueError where one cannot hold a model, of whose arrays only shapes are looked at
WITH_OPTIMIZER = ("tf1", "bert_tf")  # the formats that have a place for an optimizer's state
WITH_TASK = ("bert_tf",)  # those that have one for all that a run of ours knows: task.json, its state


def implied(form: str, config: EncoderConfig) -> dict[str, Any]:
    """Returns field -> value of the settings that readers of a format take for given; {}: it says all of them."""
    row = families.family(config.model_type).keras_hub
    return dict(row.implied) if row and form == "keras_hub" else {}


def adapted(form: str, model: ModelArrays) -> ModelArrays:
    """Returns the same model in the tables that a format has; `remarks` say what became of the others."""
    return keras_hub_objects.fold_unsupported(model) if form == "keras_hub" else model


def write_model(directory: str, form: str, model: ModelArrays) -> Written:
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
