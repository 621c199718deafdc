"""Writes a model in the form that another program reads: `write(directory, form, model)`, `form` a key of FORMATS."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from bert_tf.checkpoints import hugging_face_writer, name_maps, tf1
from bert_tf.checkpoints.keras_hub import MODEL_WEIGHTS, TASK_FILE, TASK_WEIGHTS, TOKENIZER_FILE, VOCABULARY
from bert_tf.checkpoints.name_maps import TASK
from bert_tf.checkpoints.store import CheckpointManager
from bert_tf.checkpoints.writer_base import (
    ModelArrays,
    Written,
    architecture_of,
    with_head_class,
    write_json,
    write_labels,
)
from bert_tf.models import config_files, families
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import write_text

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


# === Keras hub ===
# KerasHub's preset: config.json, HDF5 files of weights, the tokenizer's and the task's description.


KERAS_HUB_VERSION = "0.32.0"  # whose files these are; the tests have it read them

# The ending of Transformers' class -> of KerasHub's. It has no class for the labels of tokens and for answers in
# texts; its masked-LM classes compute the head with other numbers than BERT: the exact gelu, and 1e-5 in LayerNorm.
_TASKS = {"Model": None, "ForSequenceClassification": "TextClassifier"}


def write_keras_hub(directory: str, model: ModelArrays) -> Written:
    """Writes the files into a directory that is there.

    Raises:
        ValueError: KerasHub has no such model.
        OSError: a file cannot be written.
    """
    task, name_map = check_keras_hub(model), name_maps.of_keras_hub(model.config.model_type)
    by_name = {}
    for path, array in model.arrays.items():
        theirs = name_map.transform(path).to_theirs(array, model.config.num_attention_heads)
        by_name[name_map.from_ours(path)] = theirs.astype(np.float32, copy=False)
    files = {MODEL_WEIGHTS: {name: array for name, array in by_name.items() if not name.startswith(TASK)}}
    if task:
        head = {name.removeprefix(TASK): array for name, array in by_name.items() if name.startswith(TASK)}
        files[TASK_WEIGHTS] = head
    for name, arrays in files.items():
        _write_weights(os.path.join(directory, name), arrays)
    _write_descriptions(directory, model, task)
    write_labels(directory, model.labels)  # KerasHub knows no names for labels; for whoever reads them
    return Written(tuple(files))


def check_keras_hub(model: ModelArrays) -> str | None:
    """Returns the ending of the task's class; None: there is no task.

    Raises:
        ValueError: KerasHub has no such model.
    """
    name_map = name_maps.of_keras_hub(model.config.model_type)
    config, family = model.config, families.family(model.config.model_type).keras_hub
    architecture = architecture_of(model.arrays, model.architectures)
    if architecture.ending not in _TASKS:
        raise ValueError(
            f"A KerasHub preset must be an encoder or a classifier of texts. Received a model for "
            f"{architecture.ending.removeprefix('For')}, of which KerasHub has no class that computes the same; say "
            "that the head shall stay behind with `leave_out`, or take another format."
        )
    other = {name: getattr(config, name) for name, value in family.implied.items() if getattr(config, name) != value}
    lacks = [] if not config.has_pooler or "bert/pooler/dense/kernel" in model.arrays else ["no pooler"]
    lacks += [] if config.type_vocab_size or not family.has_segments else ["no segments"]
    lacks += [name for name in ("is_decoder", "norm_first", "first_position") if getattr(config, name)]
    lacks += [] if config.classifier_pooling == "cls" else [f"classifier_pooling={config.classifier_pooling}"]
    lacks += [] if model.tokenizer.mask_id is not None else ["a vocabulary without [MASK]"]
    if other or lacks:
        found = ", ".join([f"{name}={value!r}" for name, value in other.items()] + lacks)
        raise ValueError(
            f"A model for KerasHub's {family.classes}Backbone must have {dict(family.implied)}, which it computes "
            f"with. Received {found}; take another format, or give a setting up with `leave_out`."
        )
    if added := model.tokenizer.added_tokens:
        raise ValueError(
            "A model for KerasHub must have a vocabulary without added tokens, for its presets have no place for them "
            f"and its tokenizer would split them. Received {len(added)}, the first {added[0].content!r}; take another "
            "format."
        )
    for path in model.arrays:
        name_map.from_ours(path)
    return _TASKS[architecture.ending]


def _write_weights(path, arrays):
    import h5py

    with h5py.File(path, "w") as file:  # no `track_order`, with which groups get an index that `hdf5.py` does not read
        for name, array in arrays.items():
            file.create_dataset(name, data=np.ascontiguousarray(array))


def _write_descriptions(directory, model, task):
    config, family = model.config, families.family(model.config.model_type).keras_hub
    backbone = _object(family, "Backbone", "backbone", config_values_keras_hub(model))
    tokenizer = _object(family, "Tokenizer", "tokenizer", _tokenizer_values(model))
    write_json(os.path.join(directory, "config.json"), backbone)
    write_json(os.path.join(directory, TOKENIZER_FILE), tokenizer)
    write_json(os.path.join(directory, "metadata.json"), _metadata(model))
    vocabulary = os.path.join(directory, VOCABULARY)
    os.makedirs(os.path.dirname(vocabulary))
    write_text(vocabulary, "".join(f"{piece}\n" for piece in model.tokenizer.vocab))
    if not task:
        return
    values = {"tokenizer": tokenizer, "config_file": "preprocessor.json", "sequence_length": config.max_length}
    preprocessor = _object(
        family, f"{task}Preprocessor", "text_classifier_preprocessor", values | {"truncate": "round_robin"}
    )
    write_json(os.path.join(directory, "preprocessor.json"), preprocessor)
    values = {"backbone": backbone, "preprocessor": preprocessor, "activation": "linear"}
    values |= {"num_classes": len(model.arrays["classifier/output_bias"]), "dropout": config.hidden_dropout_prob}
    write_json(os.path.join(directory, TASK_FILE), _object(family, task, "text_classifier", values))


def config_values_keras_hub(model: ModelArrays) -> dict:
    """Returns what the backbone's constructor is given."""
    config, family = model.config, families.family(model.config.model_type).keras_hub
    keys = config_files.KEYS
    said = [key for key, ours in keys.items() if family.has_segments or ours != "type_vocab_size"]
    return {key: getattr(config, keys[key]) for key in said}


def _tokenizer_values(model):
    """KerasHub keeps accents where it lowercases, unless it is told to do as Google does."""
    lower = model.tokenizer.do_lower_case
    return {"config_file": TOKENIZER_FILE, "vocabulary": None, "lowercase": lower, "strip_accents": lower}


def _object(family, kind, module, config):
    """Returns Keras's description of an object of one of the family's classes."""
    return {
        "module": f"keras_hub.src.models.{family.module}.{family.module}_{module}",
        "class_name": f"{family.classes}{kind}",
        "config": config,
        "registered_name": f"keras_hub>{family.classes}{kind}",
    }


def _metadata(model):
    return {
        "keras_version": metadata.version("keras"),
        "keras_hub_version": KERAS_HUB_VERSION,
        "parameter_count": sum(a.size for path, a in model.arrays.items() if path.startswith("bert/")),
    }


# === Writers ===


__all__ = ["CHECKS", "FORMATS", "ModelArrays", "Written", "implied", "write_model"]

FORMATS: dict[str, Callable[[str, ModelArrays], Written]] = {
    "tf1": write_google,
    "huggingface": hugging_face_writer.write_hugging_face,
    "sentence_transformers": hugging_face_writer.write_sentence_transformers,
    "keras_hub": write_keras_hub,
    "bert_tf": write_own,
}
CHECKS: dict[str, Callable[[ModelArrays], Any]] = {
    "tf1": check_google,
    "huggingface": hugging_face_writer.check_hugging_face,
    "sentence_transformers": hugging_face_writer.check_sentence_transformers,
    "keras_hub": check_keras_hub,
    "bert_tf": check_own,
}  # of the same formats: raise ValueError where one cannot hold a model, of whose arrays only shapes are looked at
WITH_OPTIMIZER = ("tf1", "bert_tf")  # the formats that have a place for an optimizer's state
WITH_TASK = ("bert_tf",)  # those that have one for all that a run of ours knows: task.json, its state


def implied(form: str, config: EncoderConfig) -> dict[str, Any]:
    """Returns field -> value of the settings that readers of a format take for given; {}: it says all of them."""
    row = families.family(config.model_type).keras_hub
    return dict(row.implied) if row and FORMATS.get(form) is write_keras_hub else {}


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
