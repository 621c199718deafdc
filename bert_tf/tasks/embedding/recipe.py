"""The recipe of a sentence encoder to train: from the initial model's files, and its prompts from the options."""

import json
import os

from bert_tf.models.config_files import task_in
from bert_tf.models.sentence_transformers_files import PROMPT_NAMES, PoolingConfig, read_recipe


def read_initial_recipe(path, tokenizer) -> PoolingConfig:
    """Returns the pooling settings of the initial model.

    Raises:
        ValueError: they are not supported for training.
    """
    if not path:
        return PoolingConfig()
    directory = path if os.path.isdir(path) else os.path.dirname(path)
    recipe = read_recipe(directory)
    if recipe is None:
        of_task = task_in(directory) or {}
        if not {"layers", "poolings", "normalize"} <= of_task.keys():
            return PoolingConfig()
        names = ("prompts", "default_prompt", "dim", "max_seq_length")
        more = {name: of_task[name] for name in names if name in of_task}
        return PoolingConfig(of_task["layers"], tuple(of_task["poolings"]), of_task["normalize"], **more)
    check_recipe("init_checkpoint", directory, recipe, tokenizer)
    return recipe


def check_recipe(name, directory, recipe, tokenizer):
    """Raises ValueError if embeddings are more than pooled encoder layers; `name` is the parameter."""
    if recipe.steps or recipe.lower and not tokenizer.do_lower_case:
        what = "maps its embeddings with Dense modules" if recipe.steps else "lowercases before its tokenizer"
        raise ValueError(
            f"`{name}` must be a model of an encoder, its tokenizer and a pooling. {directory} {what}; pass its "
            "encoder directory, or a model without this."
        )


def check_pooled_prompts(name, directory, recipe, has_prompts):
    """Raises ValueError if there are prompts, but their tokens are not pooled; `name` is the parameter."""
    if has_prompts and not recipe.include_prompt:
        raise ValueError(
            f"`{name}` must pool the tokens of its prompts. {directory} does not (include_prompt in "
            "1_Pooling/config.json). Train without prompts (`prompts=`), or remove default_prompt_name from its files."
        )


def parse_prompts(given: str) -> tuple[dict[str, str], str | None]:
    """Returns the prompts in the option by name, and the name of the default prompt."""
    if not given.lstrip().startswith("{"):
        return ({"default": given}, "default") if given else ({}, None)
    try:
        prompts = json.loads(given)
    except ValueError:
        prompts = None
    names = [name for names in PROMPT_NAMES.values() for name in names]
    if not isinstance(prompts, dict) or not all(
        name in names and isinstance(text, str) for name, text in prompts.items()
    ):
        raise ValueError(
            f"`prompts` must be one text, or a JSON object of texts named query or document; got {given}; write "
            """it as {"query": "query: ", "document": "passage: "}."""
        )
    return prompts, None
