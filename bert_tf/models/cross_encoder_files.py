"""Reads and writes the activation of a CrossEncoder of sentence-transformers, and refuses what bert_tf's rerankers do
not support.

A CrossEncoder is a text classifier with one output, whose files name the activation of its scores. Its length is the
tokenizer's.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.models.config_files import task_in, warn_of_unknown_keys
from bert_tf.models.sentence_transformers_files import (
    MODULES,
    PROMPTS,
    USUAL_TRANSFORMER,
    check_single_module,
    checked_settings,
    model_type_of,
    named_prompts,
    read_sentence_settings,
    tokenizer_length,
    transformer_file,
)
from bert_tf.utils.files import brief

SCORE_ACTIVATIONS = {"sigmoid": "torch.nn.modules.activation.Sigmoid", "identity": "torch.nn.modules.linear.Identity"}
CROSS_ENCODER = "sentence_transformers"  # the key of config.json
_OLD_ACTIVATION = "sbert_ce_default_activation_function"  # the same before version 4
# For each file, the keys that are read or have no effect, and key -> the supported values.
_OF_PROMPTS = (("activation_fn", "prompts", "default_prompt_name", "model_type", "__version__", "keep_in_fp32_modules"),
               {})  # fmt: skip
_OF_KEY = ("activation_fn", "version")
_OF_TRANSFORMER = (
    ("max_seq_length", "unpad_inputs"),
    {"transformer_task": (None, "sequence-classification"), "do_lower_case": (None, False),
     "module_output_name": (None, "scores"),
     "modality_config": (None, {"text": {"method": "forward", "method_output_name": "logits"}}), **USUAL_TRANSFORMER},
)  # fmt: skip


def read_activation(directory: str, extra: Mapping[str, Any]) -> str | None:
    """Returns the activation of a CrossEncoder's scores, a key of `SCORE_ACTIVATIONS`; None for any other model.

    Args:
        directory: directory of the model.
        extra: `EncoderConfig.extra`, the other keys of its config.json.

    Raises:
        ValueError: a file is damaged, the activation is another one, there are several modules, or a prompt is
            added by default.
    """
    path, values = os.path.join(directory, PROMPTS), {}
    if model_type_of(directory) == "CrossEncoder":
        values = checked_settings(path, _OF_PROMPTS)
    else:
        path, values = os.path.join(directory, "config.json"), extra.get(CROSS_ENCODER)
        values = values if isinstance(values, Mapping) else {"activation_fn": extra.get(_OLD_ACTIVATION)}
        if values.get("activation_fn") is None:
            return None
        if unknown := sorted(values.keys() - {*_OF_KEY}):
            warn_of_unknown_keys(f"{path}, {CROSS_ENCODER}", tuple(unknown))
    _transformer_settings(directory)
    check_reranker_prompts(directory)
    said = values.get("activation_fn") or SCORE_ACTIVATIONS["sigmoid"]
    kinds = {kind.rpartition(".")[2]: name for name, kind in SCORE_ACTIVATIONS.items()}  # torch has moved its classes
    kind = str(said).rpartition(".")[2]
    if kind not in kinds:
        raise ValueError(
            f"{path} must name one of the activations {', '.join(kinds)} of torch; got {brief(said)}, which bert_tf "
            "does not support."
        )
    return kinds[kind]


def check_reranker_prompts(directory: str):
    """Raises ValueError if a CrossEncoder adds a prompt by default, which bert_tf's rerankers do not; logs other
    prompts.

    The prompts of an embedder, from which a reranker may be trained, do not count.
    """
    path = os.path.join(directory, PROMPTS)
    values = read_sentence_settings(path) if os.path.exists(path) else {}
    older = "SentenceTransformer" if os.path.exists(os.path.join(directory, MODULES)) else "CrossEncoder"
    if values.get("model_type", older) != "CrossEncoder":
        return
    prompts, default = named_prompts(path, values)
    if default and prompts[default]:
        raise ValueError(
            f"default_prompt_name in {path} must be absent, because rerankers read queries and documents without a "
            f"prompt; got {default!r}, which adds {brief(prompts[default])}; remove the key to score texts without the "
            "prompt."
        )
    if any(prompts.values()):
        _log_reranker_prompts(path, tuple(prompts))


@functools.cache
def _log_reranker_prompts(path, names):
    logging.info(
        "%s has the prompts %s, but rerankers do not add prompts. If the model requires one, add it to the texts "
        "yourself.",
        *(path, ", ".join(names)),
    )


def reranker_length(directory: str) -> int | None:
    """Returns a reranker's maximum sequence length or None.

    It is in task.json or, for a CrossEncoder, in its own files or its tokenizer's.
    """
    stated = (task_in(directory) or {}).get("max_seq_length") or _transformer_settings(directory).get("max_seq_length")
    return stated or tokenizer_length(directory)


def _transformer_settings(directory):
    """Returns the settings of a CrossEncoder's module, which versions from 5.4 on list in modules.json; {} for others.

    Raises:
        ValueError: there are several modules, or a setting is not supported.
    """
    path = os.path.join(directory, MODULES)
    if not os.path.exists(path) or model_type_of(directory) != "CrossEncoder":
        return {}
    check_single_module(path)
    file = transformer_file(directory)
    return checked_settings(file, _OF_TRANSFORMER) if file else {}


def cross_encoder_keys(extra: Mapping[str, Any], activation: str | None) -> dict[str, Any]:
    """Returns the keys of a config.json with the activation of a CrossEncoder's scores, or without any."""
    others = {key: value for key, value in extra.items() if key not in (CROSS_ENCODER, _OLD_ACTIVATION)}
    return others | ({CROSS_ENCODER: {"activation_fn": SCORE_ACTIVATIONS[activation]}} if activation else {})
