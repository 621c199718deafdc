"""The directory of a sentence encoder: Hugging Face's files, and what is made of a text's tokens."""

import os
import shutil

from bert_tf.checkpoints.writers import hugging_face
from bert_tf.checkpoints.writers.architectures import architecture_of
from bert_tf.checkpoints.writers.description import write_json
from bert_tf.checkpoints.writers.model import Model, Written
from bert_tf.files import brief, read_list

MODULES = "modules.json"
_SETTINGS = ("config_sentence_transformers.json", "sentence_bert_config.json")
_POOLINGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")


def write(directory: str, model: Model) -> Written:
    """Writes the files into a directory that is there: the source's own modules, or else the mean of the tokens.

    Raises:
        ValueError: the model has a head, which a sentence encoder does not.
        OSError: a file cannot be written.
    """
    check(model)
    written = hugging_face.write_as(directory, model, architecture_of(model.arrays))
    if model.beside and os.path.exists(os.path.join(model.beside, MODULES)):
        _copy_modules(model.beside, directory)
    else:
        _write_mean(directory, model.config)
    return written


def check(model: Model):
    """Raises ValueError where the model has a head, or its family no name for a weight."""
    architecture = architecture_of(model.arrays)
    if architecture.heads:
        raise ValueError(
            f"A sentence encoder must have no head. Received {' and '.join(architecture.heads)}; say that it shall "
            f"stay behind: `leave_out={','.join(f'{head}/.*' for head in architecture.heads)}`."
        )
    hugging_face.check(model)


def _write_mean(directory, config):
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    described = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(modules)
    ]
    write_json(os.path.join(directory, MODULES), described)
    os.mkdir(os.path.join(directory, "1_Pooling"))
    pooling = {f"pooling_mode_{name}": name == "mean_tokens" for name in _POOLINGS}
    path = os.path.join(directory, "1_Pooling", "config.json")
    write_json(path, {"word_embedding_dimension": config.hidden_size, **pooling})
    # The tokenizer lowercases by itself; this setting is for those that do not.
    values = {"max_seq_length": config.max_length, "do_lower_case": False}
    write_json(os.path.join(directory, "sentence_bert_config.json"), values)
    values = {"prompts": {}, "default_prompt_name": None}
    write_json(os.path.join(directory, "config_sentence_transformers.json"), values)


def _copy_modules(source, directory):
    for name in (MODULES, *_SETTINGS):
        if os.path.exists(os.path.join(source, name)):
            shutil.copyfile(os.path.join(source, name), os.path.join(directory, name))
    for folder in folders(os.path.join(source, MODULES)):
        if os.path.isdir(os.path.join(source, folder)):  # those without settings have none
            shutil.copytree(os.path.join(source, folder), os.path.join(directory, folder))


def folders(path: str) -> list[str]:
    """Returns the folders that modules.json names.

    Raises:
        ValueError: it is no list of modules, or one lies elsewhere than beside it.
    """
    modules = read_list(path, "a list of modules in JSON", "copy it again from the sentence encoder")
    names = [module.get("path") if isinstance(module, dict) else None for module in modules]
    strange = [name for name in names if not isinstance(name, str) or os.path.basename(name) != name
               or name in (".", "..") or "\0" in name]  # fmt: skip
    if strange:
        raise ValueError(
            f"The modules in {path} must each have a `path` and lie beside it. Received the path {brief(strange[0])}; "
            "correct it."
        )
    return [name for name in names if name]
