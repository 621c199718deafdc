"""A model of ours as an object of KerasHub's classes, if they compute the same, and as a preset of it.

KerasHub is imported by the functions that need it.
"""

import dataclasses
import json
import os
import pathlib
import tempfile
from typing import Any

import numpy as np
from absl import logging

from bert_tf.checkpoints.architectures import architecture_of
from bert_tf.checkpoints.description_files import write_labels
from bert_tf.checkpoints.keras_hub import MODEL_WEIGHTS, TASK_WEIGHTS
from bert_tf.checkpoints.keras_hub_names import keras_hub_name_map
from bert_tf.checkpoints.keras_hub_objects import LiveWeights
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig
from bert_tf.models.keras_hub_config import from_keras_hub, keras_hub_keys

TASKS = {"text_classifier": "TextClassifier", "masked_lm": "MaskedLM"}  # our name -> the ending of KerasHub's class
# The ending of Transformers' class -> the task. KerasHub has none for the labels of tokens and for answers in texts.
_TASK_OF = {"Model": None, "ForSequenceClassification": "text_classifier", "ForMaskedLM": "masked_lm"}
_OF_TRAINING = ("attention_probs_dropout_prob", "initializer_range")  # fields that change no output
_SEGMENT = "bert/embeddings/token_type_embeddings"
_POSITIONS = "bert/embeddings/position_embeddings"
_POOLER = "bert/pooler/dense/kernel"


def fold_unsupported(model: ModelArrays) -> ModelArrays:
    """Returns an equivalent model with only the tables that KerasHub has for its family.

    KerasHub's RoBERTa has no segments, so the only segment embedding is added to the position embeddings; and it has no
    position embeddings that no token uses.
    """
    row, config = family_registry.family(model.config.model_type), model.config
    if row.keras_hub is None or row.keras_hub.has_segments or row.pad_before_positions is None:
        return model
    arrays, remarks, first = dict(model.arrays), [], config.first_position
    segment, positions = None, arrays.get(_POSITIONS)
    if config.type_vocab_size == 1:
        config, segment = dataclasses.replace(config, type_vocab_size=0), arrays.pop(_SEGMENT, None)
    if isinstance(positions, np.ndarray):  # and no variable, of which only the name and the shape count
        if segment is not None and np.any(segment):
            positions = positions.astype(np.float32) + segment.astype(np.float32)
            remarks.append("The only segment embedding is added to the position embeddings.")
        if np.any(positions[:first]):
            positions = np.concatenate([np.zeros_like(positions[:first]), positions[first:]])
            remarks.append(f"The first {first} position embeddings, which no token uses, are zeros.")
        arrays[_POSITIONS] = positions
    return dataclasses.replace(model, config=config, arrays=arrays, remarks=(*model.remarks, *remarks))


def check_fits_keras_hub(model: ModelArrays) -> str | None:
    """Checks that KerasHub supports a model; returns which of TASKS its head is for, or None without a head.

    Args:
        model: only the names of its arrays are used. Its configuration is compared with that of a backbone made of it:
            each field that differs is not supported by KerasHub.

    Raises:
        ValueError: KerasHub does not support the model.
    """
    model = fold_unsupported(model)
    config = model.config
    weight_mapping = keras_hub_name_map(config.model_type, config.has_embedding_map)
    row = family_registry.family(config.model_type).keras_hub
    task = _checked_task(model, row)
    again = EncoderConfig.from_dict(from_keras_hub(_backbone_values(config)))
    ours, theirs = _computed(config), _computed(again)
    other = {name: value for name, value in ours.items() if value != theirs[name]}
    lacks = [f"{name}={value!r}" for name, value in other.items()]
    lacks += ["no pooler"] if weight_mapping.knows(_POOLER) and _POOLER not in model.arrays else []
    lacks += ["no position_buckets"] if config.pos_att_type and config.position_buckets is None else []
    lacks += ["a vocabulary without [MASK]"] if model.tokenizer and model.tokenizer.mask_id is None else []
    if config.num_hidden_layers % config.num_blocks:
        layers = f"num_hidden_layers={config.num_hidden_layers}"
        lacks.append(f"num_hidden_groups={config.num_blocks}, which does not divide {layers}")
    if lacks:
        must = {name: theirs[name] for name in {**row.implied, **other}}
        raise ValueError(
            f"KerasHub's {row.classes}Backbone requires {must}. This model has {', '.join(lacks)}; use the format "
            "bert_tf, or drop a setting with `leave_out`."
        )
    _check_tokenizer(model)
    for path in model.arrays:
        weight_mapping.from_ours(path)
    return task


def _checked_task(model, row):
    ending = architecture_of(model.arrays, model.architectures).ending
    task = _TASK_OF.get(ending)
    computed = {name: getattr(model.config, name) for name in row.masked_lm or ()}
    fits = {"text_classifier": row.has_classifier, "masked_lm": bool(row.masked_lm) and computed == row.masked_lm}
    if ending in _TASK_OF and fits.get(task, True):
        return task
    numbers = f" (its {row.classes}MaskedLM has {dict(row.masked_lm)})" if task == "masked_lm" and row.masked_lm else ""
    raise ValueError(
        f"A KerasHub preset must be an encoder or a text classifier; got a model for {ending.removeprefix('For')}, for "
        f"which KerasHub has no equivalent class{numbers}; drop the head with `leave_out`, or use the format bert_tf."
    )


def _computed(config):
    fields = [field.name for field in dataclasses.fields(config)]
    values = {name: getattr(config, name) for name in fields if name not in ("extra", "has_pooler", *_OF_TRAINING)}
    same = {"embedding_size": config.embedding_width, "num_hidden_groups": config.num_blocks}
    if config.pos_att_type:
        same |= {"pos_att_type": tuple(sorted(config.pos_att_type))}
        same |= {"max_relative_positions": config.most_relative_positions}
    return values | same


def _check_tokenizer(model):
    tokenizer = model.tokenizer
    if tokenizer is None:
        return
    if added := tokenizer.added_tokens:
        raise ValueError(
            "KerasHub does not support added tokens: its presets cannot store them and its tokenizer would split them. "
            f"The vocabulary has {len(added)}, the first {added[0].content!r}; use the format bert_tf."
        )
    kind = family_registry.family(model.config.model_type).tokenizer
    if kind != tokenizer.KIND or getattr(tokenizer, "add_prefix_space", False):
        found = tokenizer.KIND if kind != tokenizer.KIND else "add_prefix_space=True"
        raise ValueError(
            f"A model for KerasHub must have its family's tokenizer, {kind}, with the default settings; got {found}; "
            "use the format bert_tf."
        )


def _backbone_values(config):
    """Returns the description of the backbone: its class and constructor arguments."""
    row = family_registry.family(config.model_type)
    ours = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    ours |= {"embedding_size": config.embedding_width, "num_hidden_groups": config.num_blocks, "inner_group_num": 1}
    if row.pad_before_positions is not None:
        ours["max_position_embeddings"] -= row.pad_before_positions + 1
    values = {theirs: ours[name] for theirs, name in keras_hub_keys(config.model_type).items()}
    return {"class_name": f"{row.keras_hub.classes}Backbone", "config": values}


def build_keras_hub(model: ModelArrays, task: str | None = None, dtype: str | None = None, compile: bool = True):
    """Builds a KerasHub object from a model.

    Args:
        model: the model; its head, if any, must match the task.
        task: one of TASKS. If None, a backbone.
        dtype: dtype of the object. If None, Keras's global policy.
        compile: whether to compile a task for `fit`, as in KerasHub.

    Returns:
        A `keras_hub.models.Backbone`, or a `Task` with its preprocessor if the model has a tokenizer.

    Raises:
        ValueError: KerasHub does not support the model.
    """
    import keras_hub

    if (found := check_fits_keras_hub(model)) != task:
        raise ValueError(
            f"`task` must match the model's head, {found!r}; got {task!r}; use a model with such a head."
        )
    model = fold_unsupported(model)
    config, row = model.config, family_registry.family(model.config.model_type).keras_hub
    if config.attention_probs_dropout_prob != config.hidden_dropout_prob:
        logging.warning("KerasHub has a single dropout rate: %s.", config.hidden_dropout_prob)
    made = getattr(keras_hub.models, f"{row.classes}Backbone")(**_backbone_values(config)["config"], dtype=dtype)
    if task:
        name, own = f"{row.classes}{TASKS[task]}", {}
        if task == "text_classifier":
            own = {"num_classes": len(model.arrays["classifier/output_bias"]), "dropout": config.hidden_dropout_prob}
        preprocessor = None
        if model.tokenizer is not None:
            for remark in _remarks_on(model.tokenizer):
                logging.warning("%s", remark)
            kind = getattr(keras_hub.models, f"{name}Preprocessor")
            preprocessor = kind(build_tokenizer(model), sequence_length=config.max_length)
        made = getattr(keras_hub.models, name)(made, preprocessor=preprocessor, compile=compile, **own)
    _fill(made, model)
    return made


def _fill(made, model):
    """Assigns the model's weights to every variable of an object of KerasHub's."""
    config, live = model.config, LiveWeights(made)
    weight_mapping = keras_hub_name_map(config.model_type, config.has_embedding_map)
    names = weight_mapping.sort(live.shapes)
    if differing := sorted({*names.unknown, *(names.known.keys() ^ model.arrays.keys())}):
        raise ValueError(
            f"The weights do not match those of KerasHub's {type(made).__name__}: "
            f"{', '.join(differing[:5])} exist in only one of the two models. "
            "Choose the task that the model was trained for."
        )
    for path, array in model.arrays.items():
        theirs = weight_mapping.transform(path).to_theirs(np.asarray(array), config.num_attention_heads)
        live.assign(names.known[path], theirs.astype(np.float32, copy=False))


def build_tokenizer(model: ModelArrays) -> Any:
    """Builds the KerasHub tokenizer of a model."""
    import keras_hub

    tokenizer, row = model.tokenizer, family_registry.family(model.config.model_type).keras_hub
    make = getattr(keras_hub.models, f"{row.classes}Tokenizer")
    if tokenizer.KIND == "wordpiece":
        # KerasHub keeps accents when it lowercases; Google does not.
        case = {"lowercase": tokenizer.do_lower_case, "strip_accents": tokenizer.strip_accents}
        return make(vocabulary=list(tokenizer.vocab), **case)
    with tempfile.TemporaryDirectory() as name:
        tokenizer.save(name)
        folder = pathlib.Path(name)
        if tokenizer.KIND == "unigram":
            return make(proto=next(folder.glob("*.model")).read_bytes())
        merges = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]  # the first line is a version
        return make(vocabulary=json.loads((folder / "vocab.json").read_text(encoding="utf-8")), merges=merges)


def _remarks_on(tokenizer):
    """Returns remarks on tokenizer settings that KerasHub's tokenizer does not support."""
    changes = {"do_lower_case": True, "keep_accents": False, "straight_quotes": True}
    done = [f"{name}={value}" for name, value in changes.items() if getattr(tokenizer, name, None) is value]
    remarks = ()
    if tokenizer.KIND == "unigram" and done:
        remarks = (f"KerasHub's tokenizer does not support {', '.join(done)}: preprocess its texts this way.",)
    if listed := [token.content for token in tokenizer.listed_tokens]:  # added tokens are refused before
        remarks += (f"A preset cannot store the flags of special tokens, in this model those of {', '.join(listed)}.",)
    return remarks


def write_keras_hub(directory: str, model: ModelArrays) -> Written:
    """Writes a KerasHub preset to an existing directory.

    Raises:
        ValueError: KerasHub does not support the model.
        OSError: a file cannot be written.
    """
    task = check_fits_keras_hub(model)
    made = build_keras_hub(model, task, dtype="float32", compile=False)  # without the state of an optimizer
    made.save_to_preset(os.fspath(directory), max_shard_size=None)
    if task is None:
        build_tokenizer(model).save_to_preset(os.fspath(directory))
    write_labels(directory, model.labels)  # KerasHub has no label names; written for other readers
    files = (MODEL_WEIGHTS, TASK_WEIGHTS) if task else (MODEL_WEIGHTS,)
    return Written(files, remarks=_remarks_on(model.tokenizer))
