"""The directory of a model of Transformers: config.json, model.safetensors, the tokenizer's files."""

import os
import shutil

import numpy as np
from safetensors.numpy import save_file

from bert_tf.checkpoints.architectures import POOLER, Architecture, architecture_of
from bert_tf.checkpoints.description_files import HEAD_CLASS, check_label_names, write_json
from bert_tf.checkpoints.joined_weights import split_joined
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.names import family_mappings
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_keys import ACTIVATION_FIELDS
from bert_tf.models.sentence_transformers_files import tokenizer_length
from bert_tf.utils.json_files import read_json

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
    weight_mapping = family_mappings.hugging_face(model.config.model_type, tied, [ending])
    parts = {}
    for path in sorted(held, key=lambda path: weight_mapping.transform(path).part):
        theirs = weight_mapping.transform(path).to_theirs(model.arrays[path], model.config.num_attention_heads)
        name = architecture.name(weight_mapping.from_ours(path, model.arrays))
        name = weight_mapping.written(name, bool(architecture.heads))
        parts.setdefault(name, []).append(theirs)
    arrays = {name: np.ascontiguousarray(np.concatenate(some) if some[1:] else some[0]) for name, some in parts.items()}
    arrays = split_joined(arrays, weight_mapping.joined)
    weights, config = os.path.join(directory, WEIGHTS), os.path.join(directory, "config.json")
    save_file(arrays, weights, {"format": "pt"})  # which Transformers asks for
    values = hugging_face_config(model, architecture)
    if weight_mapping.written_prefixes and architecture.heads:
        values.pop("auto_map", None)  # its classes have other names for the weights of a model with a head
    write_json(config, values)
    shutil.copymode(config, weights)  # safetensors lets nobody else read it
    write_tokenizer(directory, model)
    has_pooler = any(path.startswith(POOLER) for path in held)
    wants_pooler = weight_mapping.knows(f"{POOLER}kernel") and architecture.holds(POOLER, model.arrays)
    remarks = ("There is no pooler: Transformers initializes one randomly.",) if wants_pooler > has_pooler else ()
    if has_pooler and model.config.is_decoder:
        remarks += ("Transformers computes pooler_output from the first token, which only sees itself.",)
    elif not _pools_as_here(model.config):
        remarks += ("Transformers computes pooler_output from the first token, not from the mean of all.",)
    remarks += getattr(model.tokenizer, "remarks_for_transformers", ())
    return Written((WEIGHTS,), tuple(path for path in model.arrays if path not in held), remarks)


def _architecture(model):
    """Returns the class with the model's heads; for a causal model, the one that is causal too."""
    causal = family_registry.family(model.config.model_type).causal_lm if model.config.is_decoder else None
    return architecture_of(model.arrays, (*filter(None, [causal]), *model.architectures))


def check_hugging_face(model: ModelArrays):
    """Raises ValueError if Transformers has no name for a weight, no class for the heads, or computes differently."""
    architecture = _architecture(model)
    weight_mapping = family_mappings.hugging_face(model.config.model_type, classes=[architecture.ending])
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
            weight_mapping.from_ours(path, model.arrays)
    act = family_registry.family(model.config.model_type).masked_lm_act or model.config.hidden_act
    if "cls/predictions" in architecture.heads and act != model.config.hidden_act:
        raise ValueError(
            f"In Transformers, the masked-LM head of this model_type uses {act}. This model has "
            f"hidden_act={model.config.hidden_act!r}; use the format bert_tf."
        )
    _check_positions(model.config, model.tokenizer)


def _pools_as_here(config):
    stated = family_registry.family(config.model_type).stated
    return config.classifier_pooling == "cls" or "classifier_pooling" in stated


# The settings of layers and heads that only some families have in Transformers.
_OF_LAYERS = ("norm_first", "global_rope_theta", "local_rope_theta", "local_attention", "global_attn_every_n_layers",
              "rope_ntk_factor", "gated_mlp", "first_attention_norm", "norm_bias", "attention_bias", "mlp_bias",
              "mlp_input_bias", "classifier_bias", "decoder_bias", "head_norm", "pos_att_type",
              "position_biased_input", "relative_attention_num_buckets")  # fmt: skip


def _check_layers(config):
    """Raises ValueError if the class of the family differs in its layers: other norms, or an extra or missing map."""
    row, usual = family_registry.family(config.model_type), EncoderConfig(vocab_size=1)
    fixed = row.fixed
    for name in _OF_LAYERS:
        value, expected = getattr(config, name), fixed.get(name, row.defaults.get(name, getattr(usual, name)))
        # A default that is not None is a setting that the layers always have; None, one that they may have.
        good = expected is None or value is not None if name in row.defaults else value == expected
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
    if config.pruned_heads and (config.pos_att_type or config.relative_attention_num_buckets):
        raise ValueError(
            "Transformers cannot remove attention heads from models with relative positions. This model has "
            f"pruned_heads={dict(config.pruned_heads)} with model_type={config.model_type!r}; use the format bert_tf."
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
    context = family_registry.family(config.model_type).fixed.get("replaced_token_context", False)
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

    Some families number them from after the padding id, which is in `config.json`; others from 0.
    """
    first, pad = config.first_position, tokenizer.pad_id
    if family_registry.family(config.model_type).pad_before_positions is None:
        if first:
            raise ValueError(
                "In Transformers, positions start at 0 for this model_type. This model has "
                f"first_position={first} with model_type={config.model_type!r}; use the format bert_tf."
            )
    elif pad != first - 1:
        raise ValueError(
            f"The padding id must be {first - 1} for a model whose positions start at {first}; got a tokenizer "
            f"that pads with {pad}; use the model's own."
        )


def _check_decoder(config, architecture):
    """Raises ValueError if Transformers' encoder would be bidirectional, or its head use a token without context."""
    if family_registry.family(config.model_type).causal_lm is None:
        raise ValueError(
            "Transformers does not support causal (left-to-right) models of this family. This model has is_decoder "
            f"with model_type={config.model_type!r}, whose encoder is bidirectional in Transformers; use the format "
            "bert_tf."
        )
    if architecture.heads and architecture.reads_pooler:
        raise ValueError(
            "In Transformers, a causal (left-to-right) model cannot have a sequence-level head, because the head gets "
            f"the first token, which only sees itself; got {' and '.join(architecture.heads)}; use the format bert_tf, "
            f"or drop the head: `leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )


def hugging_face_config(model: ModelArrays, architecture: Architecture) -> dict:
    """Returns the contents of config.json: the family's names, the class, the labels; unknown keys are kept."""
    config, row = model.config, family_registry.family(model.config.model_type)
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
    """Returns the maximum length of the source's tokenizer, if it has one that the model supports.

    sentence-transformers from 5.7 on stores the length of an embedder only in these files.
    """
    longest = model.config.max_length
    stated = tokenizer_length(model.source_dir) if model.source_dir else None
    return stated if stated and 0 < stated < longest else longest
