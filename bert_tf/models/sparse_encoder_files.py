"""Reads the settings of a SparseEncoder of sentence-transformers, such as SPLADE.

modules.json                 MLMTransformer, or Transformer with transformer_task "fill-mask"; then SpladePooling
sentence_bert_config.json    max_seq_length, do_lower_case
1_SpladePooling/config.json  the pooling of the masked-LM head's logits, and their activation
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
    tokenizer_length,
    transformer_file,
    typed_value,
)
from bert_tf.utils.files import brief
from bert_tf.utils.names import SPLADE_ACTIVATIONS, SPLADE_POOLINGS

_OLD_TRANSFORMER = "MLMTransformer"  # of versions before 5.4, always with its head
_TASK = "fill-mask"
# For each file, the keys that are read or have no effect, and key -> the supported values.
_OF_TRANSFORMER = (
    ("max_seq_length", "do_lower_case", "transformer_task", "unpad_inputs"),
    {"module_output_name": (None, "token_embeddings"),
     "modality_config": (None, {"text": {"method": "forward", "method_output_name": "logits"}}), **USUAL_TRANSFORMER},
)  # fmt: skip
_OF_POOLING = (("pooling_strategy", "activation_function", "embedding_dimension", "word_embedding_dimension"), {})
_OF_PROMPTS = (("prompts", "default_prompt_name", "similarity_fn_name", "__version__", "model_type"), {})


@dataclasses.dataclass(frozen=True)
class SpladeConfig(PromptConfig):
    """Settings that turn a text into a sparse embedding.

    Attributes:
        pooling, activation: as in `SpladeModel`.
    """

    pooling: str = "max"
    activation: str = "relu"


def read_splade_config(directory: str) -> SpladeConfig | None:
    """Reads the settings of a SparseEncoder's directory; returns None for any other.

    Raises:
        ValueError: a file is damaged, or has unsupported modules or settings; the message names it.
    """
    if not is_sparse_encoder(directory):
        return None
    path = os.path.join(directory, MODULES)
    modules = read_modules(path)
    kinds = [kind for kind, _ in modules]
    if kinds not in ([_OLD_TRANSFORMER, SPLADE], ["Transformer", SPLADE]):
        raise ValueError(
            f"A SparseEncoder must consist of a Transformer or {_OLD_TRANSFORMER} and {SPLADE}. Received {path}, which "
            f"lists {', '.join(kinds)}; use another model."
        )
    (kind, folder), (_, pooling) = modules
    return SpladeConfig(
        *_read_pooling(os.path.join(directory, pooling, "config.json")),
        **_read_transformer(os.path.join(directory, folder), kind),
        **_read_prompts(directory),
        folder=folder,
    )


def _read_transformer(directory, kind):
    path = transformer_file(directory)
    values = checked_settings(path, _OF_TRANSFORMER) if path else {}
    task = values.get("transformer_task", _TASK if kind == _OLD_TRANSFORMER else None)
    if task != _TASK:
        raise ValueError(
            f"transformer_task in {path or directory} must be {_TASK!r}, because {SPLADE} reads the logits of a "
            f"masked-LM head. Received: {brief(task)}; use another model."
        )
    length = typed_value(path, values, "max_seq_length", int, tokenizer_length(directory))
    return {"max_seq_length": length, "lower": typed_value(path, values, "do_lower_case", bool, False)}


def _read_pooling(path):
    values, found = module_settings(path, _OF_POOLING), []
    for key, known in (("pooling_strategy", SPLADE_POOLINGS), ("activation_function", SPLADE_ACTIVATIONS)):
        found.append(values.get(key, known[0]))
        if found[-1] not in known:
            raise ValueError(
                f"{key} in {path} must be one of {', '.join(known)}. Received: {brief(found[-1])}; use another model."
            )
    return found


def _read_prompts(directory):
    path = os.path.join(directory, PROMPTS)
    values = checked_settings(path, _OF_PROMPTS) if os.path.exists(path) else {}
    prompts, default = named_prompts(path, values)
    return {"prompts": prompts, "default_prompt": default}
