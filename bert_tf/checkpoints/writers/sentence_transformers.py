"""The directory of a sentence encoder: Hugging Face's files, and what is made of a text's tokens."""

import os
import shutil

from bert_tf.checkpoints.writers import hugging_face
from bert_tf.checkpoints.writers.architectures import architecture_of
from bert_tf.checkpoints.writers.description import write_json
from bert_tf.checkpoints.writers.model import Model, Written
from bert_tf.models.sentence_files import MODULES, PROMPTS, TRANSFORMER_FILES, Recipe, folders, pooling_settings


def write(directory: str, model: Model) -> Written:
    """Writes the files into a directory that is there: the source's own modules, else what it was trained for or
    the mean of the tokens.

    Raises:
        ValueError: the model has a head, which a sentence encoder does not, or pools what the format cannot say.
        OSError: a file cannot be written.
    """
    check(model)
    written = hugging_face.write_as(directory, model, architecture_of(model.arrays))
    if model.beside and os.path.exists(os.path.join(model.beside, MODULES)):
        _copy_modules(model.beside, directory)
    else:
        _write_recipe(directory, model.recipe or Recipe(), model.config)
    return written


def check(model: Model):
    """Raises ValueError where the model has a head, pools other layers than the last, or has a nameless weight."""
    architecture = architecture_of(model.arrays)
    if architecture.heads:
        raise ValueError(
            f"A sentence encoder must have no head. Received {' and '.join(architecture.heads)}; say that it shall "
            f"stay behind: `leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )
    if model.recipe and model.recipe.layers != Recipe().layers:
        raise ValueError(
            f"A sentence encoder of this format must pool its last layer. Received layers={model.recipe.layers}; take "
            "another format, or train with `layers=last`."
        )
    hugging_face.check(model)


def _write_recipe(directory, recipe, config):
    """Writes the modules of a recipe that `check` has let pass."""
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
    write_json(os.path.join(directory, PROMPTS), {"prompts": {}, "default_prompt_name": None})


def _copy_modules(source, directory):
    for name in (MODULES, PROMPTS, *TRANSFORMER_FILES):
        if os.path.exists(os.path.join(source, name)):
            shutil.copyfile(os.path.join(source, name), os.path.join(directory, name))
    for folder in folders(os.path.join(source, MODULES)):
        if os.path.isdir(os.path.join(source, folder)):  # those without settings have none
            shutil.copytree(os.path.join(source, folder), os.path.join(directory, folder))
