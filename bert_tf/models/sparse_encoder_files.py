"""Reads the settings of a SparseEncoder of sentence-transformers, such as SPLADE.

modules.json                 MLMTransformer, or Transformer with transformer_task "fill-mask"; then SpladePooling
sentence_bert_config.json    max_seq_length, do_lower_case
1_SpladePooling/config.json  the pooling of the masked-LM head's logits, and their activation

OpenSearch's models for documents have a single module instead, a Router, whose router_config.json names those modules
for documents, and a SparseStaticEmbedding for queries: a weight for each token of the vocabulary.
"""

import dataclasses
import os

from bert_tf.models.sentence_transformers_files import (
    MODULES,
    PROMPTS,
    SPLADE,
    USUAL_TRANSFORMER,
    PromptConfig,
    checked_settings,
    is_sparse_encoder,
    module_settings,
    named_prompts,
    read_modules,
    read_sentence_settings,
    tokenizer_length,
    transformer_file,
    typed_value,
)
from bert_tf.utils.files import brief
from bert_tf.utils.names import SPLADE_ACTIVATIONS, SPLADE_POOLINGS

_ROUTER, _STATIC = "Router", "SparseStaticEmbedding"
ROUTER_FILE = "router_config.json"
_OLD_TRANSFORMER = "MLMTransformer"  # of versions before 5.4, always with its head
_TASK = "fill-mask"
# For each file, the keys that are read or have no effect, and key -> the supported values.
_OF_TRANSFORMER = (
    ("max_seq_length", "do_lower_case", "transformer_task", "unpad_inputs"),
    {"module_output_name": (None, "token_embeddings"),
     "modality_config": (None, {"text": {"method": "forward", "method_output_name": "logits"}}), **USUAL_TRANSFORMER},
)  # fmt: skip
_OF_POOLING = (("pooling_strategy", "activation_function", "embedding_dimension", "word_embedding_dimension"), {})
_OF_STATIC = (("frozen",), {"path": (None,)})  # of a JSON file of weights
_OF_ROUTER = ("types", "structure", "parameters")
_OF_ROUTES = (("default_route", "allow_empty_key"), {"route_mappings": (None, {})})
_OF_PROMPTS = (("prompts", "default_prompt_name", "similarity_fn_name", "__version__", "model_type"), {})


@dataclasses.dataclass(frozen=True)
class SpladeConfig(PromptConfig):
    """Settings that turn a text into a sparse embedding.

    Attributes:
        pooling, activation: as in `SpladeModel`.
    """

    pooling: str = "max"
    activation: str = "relu"


@dataclasses.dataclass(frozen=True)
class StaticEmbeddingConfig(PromptConfig):
    """Settings that turn a text into the weights of its own tokens, without an encoder.

    Attributes:
        weights: directory of the weights and of their tokenizer.
    """

    weights: str = ""


def read_sparse_config(directory: str, kind: str | None = None) -> SpladeConfig | StaticEmbeddingConfig | None:
    """Reads the settings of a SparseEncoder's directory; returns None for any other.

    Args:
        directory: the directory.
        kind: "query" or "document", which a Router embeds differently. If None, the Router's default.

    Raises:
        ValueError: a file is damaged, or has unsupported modules or settings; the message names it.
    """
    if not is_sparse_encoder(directory):
        return None
    path = os.path.join(directory, MODULES)
    modules, encoder = read_modules(path), None
    if [each for each, _ in modules] == [_ROUTER]:
        path = os.path.join(directory, modules[0][1], ROUTER_FILE)
        modules, encoder = _read_route(path, modules[0][1], kind)
    kinds = [each for each, _ in modules]
    if kinds == [_STATIC] and encoder is not None:
        return _read_static(directory, modules[0][1], encoder)
    if kinds not in ([_OLD_TRANSFORMER, SPLADE], ["Transformer", SPLADE]):
        raise ValueError(
            f"A SparseEncoder must consist of a Transformer or {_OLD_TRANSFORMER} and {SPLADE}; got {path}, which "
            f"lists {', '.join(kinds)}, which bert_tf does not support."
        )
    (first, folder), (_, pooling) = modules
    return SpladeConfig(
        *_read_pooling(os.path.join(directory, pooling, "config.json")),
        **_read_transformer(os.path.join(directory, folder), first),
        **_read_prompts(directory),
        folder=folder,
    )


def _read_route(path, folder, kind):
    """Returns (class, directory) of each module of a Router for a kind of text, and the directory of its encoder."""
    values = read_sentence_settings(path)
    types, routes, parameters = (typed_value(path, values, key, dict, {}) for key in _OF_ROUTER)
    strange = [key for key in values if key not in _OF_ROUTER]
    strange += [key for key in parameters if key not in (*_OF_ROUTES[0], *_OF_ROUTES[1])]
    strange += [key for key, allowed in _OF_ROUTES[1].items() if parameters.get(key) not in allowed]
    if strange or {*routes} != {"query", "document"} or not all(isinstance(each, list) for each in routes.values()):
        raise ValueError(
            f"{path} must have the routes query and document, and no others; got "
            f"{brief(strange[0] if strange else routes)}, which bert_tf does not support."
        )
    default = typed_value(path, parameters, "default_route", str, "document")
    if default not in routes:
        raise ValueError(f"default_route in {path} must be query or document; got {brief(default)}.")
    names = routes[kind or default]
    for name in (*names, *routes["document"]):
        is_safe = isinstance(name, str) and os.path.basename(name) == name and name not in (".", "..")
        if not is_safe or not str(types.get(name)).startswith("sentence_transformers."):
            raise ValueError(
                f"The modules in {path} must be those of sentence-transformers, in directories next to it; got "
                f"{brief(name)}, which bert_tf does not support."
            )
    modules = [(types[name].rpartition(".")[2], os.path.join(folder, name)) for name in names]
    return modules, os.path.join(folder, routes["document"][0]) if routes["document"] else None


def _read_static(directory, folder, encoder):
    path = os.path.join(directory, folder)
    module_settings(os.path.join(path, "config.json"), _OF_STATIC)
    return StaticEmbeddingConfig(
        folder, max_seq_length=tokenizer_length(path), folder=encoder, **_read_prompts(directory)
    )


def _read_transformer(directory, kind):
    path = transformer_file(directory)
    values = checked_settings(path, _OF_TRANSFORMER) if path else {}
    task = values.get("transformer_task", _TASK if kind == _OLD_TRANSFORMER else None)
    if task != _TASK:
        raise ValueError(
            f"transformer_task in {path or directory} must be {_TASK!r}, because {SPLADE} reads the logits of a "
            f"masked-LM head; got {brief(task)}, which bert_tf does not support."
        )
    length = typed_value(path, values, "max_seq_length", int, tokenizer_length(directory))
    return {"max_seq_length": length, "lower": typed_value(path, values, "do_lower_case", bool, False)}


def _read_pooling(path):
    values, found = module_settings(path, _OF_POOLING), []
    for key, known in (("pooling_strategy", SPLADE_POOLINGS), ("activation_function", SPLADE_ACTIVATIONS)):
        found.append(values.get(key, known[0]))
        if found[-1] not in known:
            raise ValueError(
                f"{key} in {path} must be one of {', '.join(known)}; got {brief(found[-1])}, which bert_tf does not "
                "support."
            )
    return found


def _read_prompts(directory):
    path = os.path.join(directory, PROMPTS)
    values = checked_settings(path, _OF_PROMPTS) if os.path.exists(path) else {}
    prompts, default = named_prompts(path, values)
    return {"prompts": prompts, "default_prompt": default}
