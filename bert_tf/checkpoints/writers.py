"""Writes a model in the format of another library: `write_model(directory, form, model)`, see FORMATS."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from bert_tf.checkpoints import keras_hub_objects, tf1
from bert_tf.checkpoints.architectures import POOLER, Architecture, architecture_of
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.description_files import (
    HEAD_CLASS,
    check_label_names,
    with_head_class,
    write_json,
    write_labels,
)
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.names import family_map
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.models import families
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_keys import ACTIVATION_FIELDS
from bert_tf.models.cross_encoder_files import CROSS_ENCODER, reranker_length
from bert_tf.models.sentence_transformers_files import (
    MODULES,
    PROMPTS,
    TRANSFORMER_FILES,
    PoolingConfig,
    folders,
    pooling_settings,
    tokenizer_length,
)
from bert_tf.utils.json_files import read_json

# === Google ===
# The directory of a release of google-research/bert: bert_model.ckpt, bert_config.json, vocab.txt.


CHECKPOINT = "bert_model.ckpt"
# The keys of its bert_config.json; its code does not support other settings of our encoder.
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
    """Writes a google-research/bert directory into an existing directory.

    Raises:
        ValueError: google-research/bert does not support the model; or the disk is full.
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
            f"google-research/bert's own code only reads vocab.txt, which cannot store the {len(added)} added tokens "
            f"such as {added[0].content!r}: it splits them. bert_tf and Transformers read them from "
            "tokenizer_config.json.",
        )
    return Written(tuple(f"{CHECKPOINT}.{end}" for end in ("data-00000-of-00001", "index")), (), remarks)


def float32_by_name(model: ModelArrays) -> dict:
    """Returns {TF1 name: float32 array}, the dtype that all readers of TF1 checkpoints expect."""
    return {TF1.from_ours(path): array.astype("float32", copy=False) for path, array in model.arrays.items()}


def bert_config(config: EncoderConfig) -> tuple[dict, tuple[str, ...]]:
    """Returns the contents of bert_config.json, and remarks for its reader.

    In Google's files, "gelu" means the tanh form. A model with the exact form therefore keeps a key that Google's files
    lack, from which `EncoderConfig` and Transformers recognize it; Google's own code would compute the other form.
    """
    extra = {name: value for name, value in config.extra.items() if name not in _OTHER_DIALECT}
    values = {name: getattr(config, name) for name in _KEYS}
    if config.hidden_act == "gelu_tanh" and config.layer_norm_eps == _EPSILON:
        return {**extra, **values, "hidden_act": "gelu"}, ()
    if config.hidden_act not in ("gelu", "gelu_tanh") and config.layer_norm_eps == _EPSILON:
        return {**extra, **values}, ()
    remark = (
        f"google-research/bert's own code uses the tanh form of gelu and LayerNorm with {_EPSILON}; this model has "
        f"{config.hidden_act} and {config.layer_norm_eps}, which Transformers and bert_tf read from bert_config.json."
    )
    return {**extra, **values, "layer_norm_eps": config.layer_norm_eps}, (remark,)


def check_google(model: ModelArrays):
    """Raises ValueError if google-research/bert does not support the model."""
    plain = EncoderConfig(**{name: getattr(model.config, name) for name in _KEYS})
    fields = [f.name for f in dataclasses.fields(plain) if f.name not in (*_KEYS, "extra", "layer_norm_eps")]
    other = [f"{name}={getattr(model.config, name)!r}" for name in fields
             if getattr(model.config, name) != getattr(plain, name)]  # fmt: skip
    strange = [path for path in model.arrays if path.startswith(_NOT_GOOGLES)]
    other += [] if model.config.type_vocab_size else ["type_vocab_size=0"]
    if other or strange:
        raise ValueError(
            "The google-research/bert format requires a BERT as in its modeling.py. This model has "
            f"{', '.join(other + strange[:5])}; use the format bert_tf."
        )


# === Hugging Face ===
# The directory of a model of Transformers: config.json, model.safetensors, the tokenizer's files.


WEIGHTS = "model.safetensors"
_CLASSIFIER = "classifier/output_bias"


def write_hugging_face(directory: str, model: ModelArrays) -> Written:
    """Writes a Transformers model into an existing directory.

    Raises:
        ValueError: the family has no name for a weight, or no class has the model's heads.
        OSError: a file cannot be written.
    """
    return write_as(directory, model, _architecture(model))


def write_as(directory: str, model: ModelArrays, architecture: Architecture) -> Written:
    """Writes the files like `write_hugging_face`, for one class."""
    check_hugging_face(model)
    held = [path for path in model.arrays if architecture.holds(path, model.arrays)]
    tied, ending = model.config.tie_word_embeddings, architecture.ending
    name_map = family_map.hugging_face(model.config.model_type, tied, [ending])
    parts = {}
    for path in sorted(held, key=lambda path: name_map.transform(path).part):
        theirs = name_map.transform(path).to_theirs(model.arrays[path], model.config.num_attention_heads)
        name = architecture.name(name_map.from_ours(path, model.arrays))
        parts.setdefault(name, []).append(theirs)
    arrays = {name: np.ascontiguousarray(np.concatenate(some) if some[1:] else some[0]) for name, some in parts.items()}
    weights, config = os.path.join(directory, WEIGHTS), os.path.join(directory, "config.json")
    save_file(arrays, weights, {"format": "pt"})  # which Transformers asks for
    write_json(config, hugging_face_config(model, architecture))
    shutil.copymode(config, weights)  # safetensors lets nobody else read it
    write_tokenizer(directory, model)
    has_pooler = any(path.startswith(POOLER) for path in held)
    wants_pooler = name_map.knows(f"{POOLER}kernel") and architecture.holds(POOLER, model.arrays)
    remarks = ("There is no pooler: Transformers initializes one randomly.",) if wants_pooler > has_pooler else ()
    if has_pooler and model.config.is_decoder:
        remarks += ("Transformers computes pooler_output from the first token, which only sees itself.",)
    elif not _pools_as_here(model.config):
        remarks += ("Transformers computes pooler_output from the first token, not from the mean of all.",)
    remarks += getattr(model.tokenizer, "remarks_for_transformers", ())
    return Written((WEIGHTS,), tuple(path for path in model.arrays if path not in held), remarks)


def _architecture(model):
    """Returns the class with the model's heads; for a causal model, the one that is causal too."""
    causal = families.family(model.config.model_type).causal_lm if model.config.is_decoder else None
    return architecture_of(model.arrays, (*filter(None, [causal]), *model.architectures))


def check_hugging_face(model: ModelArrays):
    """Raises ValueError if Transformers has no name for a weight, no class for the heads, or computes differently."""
    architecture = _architecture(model)
    name_map = family_map.hugging_face(model.config.model_type, classes=[architecture.ending])
    if model.config.is_decoder:
        _check_decoder(model.config, architecture)
    if not _pools_as_here(model.config) and architecture.heads and architecture.reads_pooler:
        raise ValueError(
            "Transformers represents a whole text by its first token. This model has classifier_pooling="
            f"{model.config.classifier_pooling!r} with {' and '.join(architecture.heads)}; use the format bert_tf."
        )
    _check_layers(model.config)
    _check_pretraining_heads(model.config, architecture)
    for path in model.arrays:
        if architecture.holds(path, model.arrays):
            name_map.from_ours(path, model.arrays)
    act = families.family(model.config.model_type).masked_lm_act or model.config.hidden_act
    if "cls/predictions" in architecture.heads and act != model.config.hidden_act:
        raise ValueError(
            f"In Transformers, the masked-LM head of this model_type uses {act}. This model has hidden_act="
            f"{model.config.hidden_act!r}; use another format."
        )
    _check_positions(model.config, model.tokenizer)


def _pools_as_here(config):
    stated = families.family(config.model_type).stated
    return config.classifier_pooling == "cls" or "classifier_pooling" in stated


# The settings of layers and heads that only some families have in Transformers.
_OF_LAYERS = ("norm_first", "global_rope_theta", "local_rope_theta", "local_attention", "global_attn_every_n_layers",
              "gated_mlp", "first_attention_norm", "norm_bias", "attention_bias", "mlp_bias", "classifier_bias",
              "head_norm", "pos_att_type", "position_biased_input")  # fmt: skip


def _check_layers(config):
    """Raises ValueError if the class of the family differs in its layers: other norms, or an extra or missing map."""
    row, usual = families.family(config.model_type), EncoderConfig(vocab_size=1)
    fixed = row.fixed
    for name in _OF_LAYERS:
        value, expected = getattr(config, name), fixed.get(name, row.defaults.get(name, getattr(usual, name)))
        good = (value is not None) == (expected is not None) if name in row.defaults else value == expected
        if not good:
            raise ValueError(
                f"Transformers only supports {name}={expected} for this model_type. This model has {name}={value} with "
                f"model_type={config.model_type!r}; use the format bert_tf."
            )
    if config.conv_kernel_size and "conv_groups" not in row.restated:  # a key of families that have a convolution
        raise ValueError(
            "Transformers does not support a convolution for this model_type. This model has conv_kernel_size="
            f"{config.conv_kernel_size} with model_type={config.model_type!r}; use the format bert_tf."
        )
    has_map = config.embedding_width != config.hidden_size or fixed.get("maps_embeddings", False)
    if config.has_embedding_map != has_map:
        raise ValueError(
            "Transformers does not support this use of a map after the embeddings for this model_type. This model has "
            f"maps_embeddings={config.maps_embeddings} with model_type={config.model_type!r} and embeddings "
            f"as wide as the layers, {config.hidden_size}; use the format bert_tf."
        )


def _check_pretraining_heads(config, architecture):
    """Raises ValueError if the family's head in Hugging Face's files computes something else from the same weights."""
    context = families.family(config.model_type).fixed.get("replaced_token_context", False)
    settings = {
        "cls/predictions": ("enhanced_mask_decoder", False),
        "cls/replaced_tokens": ("replaced_token_context", context),
    }
    for head in set(settings).intersection(architecture.heads):
        name, expected = settings[head]
        if (value := getattr(config, name)) != expected:
            raise ValueError(
                f"Hugging Face's format requires {name}={expected} for this model_type. This model has {name}={value}; "
                f"use the format bert_tf, or drop the head: `leave_out={head}/.*`."
            )


def _check_positions(config, tokenizer):
    """Raises ValueError if Transformers would number positions differently.

    Some families number them from after the padding id, which `config.json` states; others from 0.
    """
    first, pad = config.first_position, tokenizer.pad_id
    if families.family(config.model_type).pad_before_positions is None:
        if first:
            raise ValueError(
                "In Transformers, positions start at 0 for this model_type. This model has "
                f"first_position={first} with model_type={config.model_type!r}; use the format bert_tf."
            )
    elif pad != first - 1:
        raise ValueError(
            f"The padding id must be {first - 1} for a model whose positions start at {first}. Received a tokenizer "
            f"that pads with {pad}; use the model's own."
        )


def _check_decoder(config, architecture):
    """Raises ValueError if Transformers' encoder would be bidirectional, or its head use a token without context."""
    if families.family(config.model_type).causal_lm is None:
        raise ValueError(
            "Transformers does not support causal (left-to-right) models of this family. This model has is_decoder "
            f"with model_type={config.model_type!r}, whose encoder is bidirectional there; use the format bert_tf."
        )
    if architecture.heads and architecture.reads_pooler:
        raise ValueError(
            "In Transformers, a causal (left-to-right) model cannot have a head for whole texts, because the head gets "
            f"the first token, which only sees itself. Received {' and '.join(architecture.heads)}; use the format "
            f"bert_tf, or drop the head: `leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )


def hugging_face_config(model: ModelArrays, architecture: Architecture) -> dict:
    """Returns the contents of config.json: the family's names, the class, the labels; unknown keys are kept."""
    config, row = model.config, families.family(model.config.model_type)
    values = config.to_dict()
    if "embedding_size" in row.defaults:
        values["embedding_size"] = config.embedding_width
    if "num_hidden_groups" in row.defaults:
        values["num_hidden_groups"] = config.num_blocks
    acts = {name: _ACTIVATIONS.get(values[name], values[name]) for name in ACTIVATION_FIELDS if name in values}
    values = row.write(values | acts)
    values |= {"model_type": config.model_type, "architectures": [f"{row.classes}{architecture.ending}"]}
    values["pad_token_id"] = model.tokenizer.pad_id
    for key in ("id2label", "label2id", "num_labels", HEAD_CLASS):
        values.pop(key, None)
    if architecture.ending != "ForSequenceClassification":  # no other class reads it
        values.pop("problem_type", None)
    if "classifier" in architecture.heads and architecture.ending != "ForMultipleChoice":
        values |= _labels(model)
    return dict(sorted(values.items()))


# Ours -> theirs, where "gelu" is the exact form too.
_ACTIVATIONS = {"gelu_tanh": "gelu_new"}


def _labels(model):
    """Returns the names of the outputs, or their number without names."""
    if model.labels is None:
        return {"num_labels": len(model.arrays[_CLASSIFIER])}
    check_label_names(model.labels)
    return {"id2label": dict(enumerate(model.labels)), "label2id": {name: n for n, name in enumerate(model.labels)}}


def write_tokenizer(directory: str, model: ModelArrays):
    """Writes the vocabulary and the settings that AutoTokenizer needs: class, maximum length, special tokens."""
    tokenizer = model.tokenizer
    tokenizer.save(directory)
    path = os.path.join(directory, "tokenizer_config.json")
    special = tokenizer.special_tokens
    inputs = ["input_ids", *(["token_type_ids"] if model.config.type_vocab_size else []), "attention_mask"]
    settings = {**special, "model_max_length": _length_of(model), "model_input_names": inputs}
    written = read_json(path) if os.path.exists(path) else {}
    write_json(path, {**settings, **written})
    write_json(os.path.join(directory, "special_tokens_map.json"), special)


def _length_of(model):
    """Returns the maximum length of the source's tokenizer, if it states one that the model supports.

    sentence-transformers from 5.7 on states the length of an embedder only there.
    """
    longest = model.config.max_length
    stated = tokenizer_length(model.source_dir) if model.source_dir else None
    return stated if stated and 0 < stated < longest else longest


# === sentence-transformers ===
# The directory of a sentence encoder: Hugging Face's files and the pooling settings. For a CrossEncoder, the
# configuration names the activation of its scores.


def write_sentence_transformers(directory: str, model: ModelArrays) -> Written:
    """Writes a sentence-transformers model into an existing directory: with the source's modules, the settings it was
    trained with, or mean pooling. A reranker becomes a CrossEncoder.

    Raises:
        ValueError: the model has another head, or a pooling that the format does not support.
        OSError: a file cannot be written.
    """
    check_sentence_transformers(model)
    written = write_as(directory, model, architecture_of(model.arrays, model.architectures))
    if CROSS_ENCODER in model.config.extra:
        _keep_length(directory, model.source_dir)
        return written
    if model.source_dir and os.path.exists(os.path.join(model.source_dir, MODULES)):
        _copy_modules(model.source_dir, directory)
    else:
        _write_recipe(directory, model.recipe or PoolingConfig(), model.config)
    return written


def _keep_length(directory, source):
    """Writes the maximum sequence length of a reranker where a CrossEncoder looks for it: with its tokenizer."""
    length = source and reranker_length(source)
    if length:
        path = os.path.join(directory, "tokenizer_config.json")
        write_json(path, read_json(path) | {"model_max_length": length})


def check_sentence_transformers(model: ModelArrays):
    """Raises ValueError if the model has a head, unless it is a reranker's, pools layers other than the last, or has an
    unknown weight."""
    architecture = architecture_of(model.arrays)
    if architecture.heads and CROSS_ENCODER not in model.config.extra:
        raise ValueError(
            f"A sentence encoder must not have a head. Received {' and '.join(architecture.heads)}; drop it: "
            f"`leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )
    if model.recipe and model.recipe.layers != PoolingConfig().layers:
        raise ValueError(
            f"A sentence encoder in this format must pool its last layer. Received layers={model.recipe.layers}; use "
            "another format, or train with `layers=last`."
        )
    check_hugging_face(model)


def _write_recipe(directory, recipe, config):
    """Writes the modules of a recipe that passed `check`."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")][: 2 + recipe.normalize]
    described = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(modules)
    ]
    write_json(os.path.join(directory, MODULES), described)
    for path, _ in modules[1:]:
        os.mkdir(os.path.join(directory, path))
    values = pooling_settings(recipe.poolings, config.hidden_size)
    write_json(os.path.join(directory, "1_Pooling", "config.json"), values)
    # The tokenizer lowercases by itself; this setting is for those that do not.
    values = {"max_seq_length": recipe.max_seq_length or config.max_length, "do_lower_case": False}
    write_json(os.path.join(directory, TRANSFORMER_FILES[0]), values)
    values = {"prompts": dict(recipe.prompts), "default_prompt_name": recipe.default_prompt}
    write_json(os.path.join(directory, PROMPTS), values | ({"truncate_dim": recipe.dim} if recipe.dim else {}))


def _copy_modules(source, directory):
    for name in (MODULES, PROMPTS, *TRANSFORMER_FILES):
        if os.path.exists(os.path.join(source, name)):
            shutil.copyfile(os.path.join(source, name), os.path.join(directory, name))
    for folder in folders(os.path.join(source, MODULES)):
        if os.path.isdir(os.path.join(source, folder)):  # those without settings have none
            shutil.copytree(os.path.join(source, folder), os.path.join(directory, folder))


# === Own ===
# A bert_tf directory, as written by the training commands: model.ckpt-<step>, bert_config.json, vocab.txt, task.json.


_STEP = "global_step"
_TASK_FILE = "task.json"
_SERVED = ("classifier/", "cls/squad/", "recurrent/", "tagger/")  # the heads that task.json may be about


def check_own(model: ModelArrays):
    """Raises ValueError if a weight has no name."""
    for path in model.arrays:
        TF1.from_ours(path)


def write_own(directory: str, model: ModelArrays) -> Written:
    """Writes a bert_tf directory into an existing directory.

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
    task = os.path.join(model.source_dir or directory, _TASK_FILE)
    is_about = model.recipe is not None or any(path.startswith(_SERVED) for path in model.arrays)
    if model.source_dir and os.path.exists(task) and is_about:
        shutil.copyfile(task, os.path.join(directory, _TASK_FILE))
    name = os.path.basename(prefix)
    return Written((f"{name}.data-00000-of-00001", f"{name}.index"))


# === Writers ===


__all__ = ["CHECKS", "FORMATS", "ModelArrays", "Written", "adapted", "implied", "write_model"]

FORMATS: dict[str, Callable[[str, ModelArrays], Written]] = {
    "tf1": write_google,
    "huggingface": write_hugging_face,
    "sentence_transformers": write_sentence_transformers,
    "keras_hub": keras_hub_objects.write_keras_hub,
    "bert_tf": write_own,
}
CHECKS: dict[str, Callable[[ModelArrays], Any]] = {
    "tf1": check_google,
    "huggingface": check_hugging_face,
    "sentence_transformers": check_sentence_transformers,
    "keras_hub": keras_hub_objects.check_fits_keras_hub,
    "bert_tf": check_own,
}  # of the same formats: raise ValueError where one cannot hold a model, of whose arrays only shapes are looked at
WITH_OPTIMIZER = ("tf1", "bert_tf")  # the formats that can store an optimizer's state
WITH_TASK = ("bert_tf",)  # those that can store the whole state of a run: task.json, its state


def implied(form: str, config: EncoderConfig) -> dict[str, Any]:
    """Returns {field: value} of the settings that readers of a format assume; {} if it stores all of them."""
    row = families.family(config.model_type).keras_hub
    return dict(row.implied) if row and form == "keras_hub" else {}


def adapted(form: str, model: ModelArrays) -> ModelArrays:
    """Returns an equivalent model with only the tables of a format; `remarks` describe what happened to the others."""
    return keras_hub_objects.fold_unsupported(model) if form == "keras_hub" else model


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
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {form!r}.")
    if model.optimizer and form not in WITH_OPTIMIZER:
        raise ValueError(
            f"`with_optimizer` requires a format that can store the optimizer: {' or '.join(WITH_OPTIMIZER)}. "
            f"Received: {form}."
        )
    return FORMATS[form](directory, model)
