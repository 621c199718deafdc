"""The directory of a sentence encoder: Hugging Face's files and the pooling settings.

For a CrossEncoder, the configuration names the activation of its scores.
"""

import os
import shutil

from bert_tf.checkpoints.architectures import architecture_of
from bert_tf.checkpoints.description_files import write_json
from bert_tf.checkpoints.formats.hugging_face import check_hugging_face, write_as
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.models.cross_encoder_files import CROSS_ENCODER, reranker_length
from bert_tf.models.sentence_transformers_files import (
    MODULES,
    PROMPTS,
    TRANSFORMER_FILES,
    PoolingConfig,
    folders,
    is_sparse_encoder,
    pooling_settings,
)
from bert_tf.utils.json_files import read_json


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
    """Raises ValueError if the model is a SparseEncoder, has a head, unless it is a reranker's, pools layers other than
    the last, or has an unknown weight."""
    if model.source_dir and is_sparse_encoder(model.source_dir):
        raise ValueError(
            f"SparseEncoders cannot be written in this format; got {model.source_dir}; use format huggingface, "
            "which keeps the masked-LM head, and copy modules.json and the directories that it names."
        )
    architecture = architecture_of(model.arrays)
    if architecture.heads and CROSS_ENCODER not in model.config.extra:
        raise ValueError(
            f"A sentence encoder must not have a head; got {' and '.join(architecture.heads)}; drop it: "
            f"`leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )
    if model.recipe and model.recipe.layers != PoolingConfig().layers:
        raise ValueError(
            f"A sentence encoder in this format must pool its last layer; got layers={model.recipe.layers}; use the "
            "format bert_tf, or train with `layers=last`."
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
