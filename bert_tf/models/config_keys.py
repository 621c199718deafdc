"""The keys of config.json that are no field of `EncoderConfig`: read elsewhere, refused, or without effect here.

Every key that the configuration classes of Transformers read is a field, or in exactly one of the tables below. One
that nobody knows is kept, as google-research/bert does, and one line of the log names it.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

from bert_tf.utils.files import brief

# What a head is for, what its outputs are called, which tokenizer there is, where positions begin.
READ = frozenset(
    {"architectures", "head_class", "id2label", "num_labels", "pad_token_id", "problem_type", "tokenizer_class"}
)
# Key -> the values that say what is computed here, and what that is; every other value is refused.
COMPUTED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "position_embedding_type": (("absolute", None), "the position of a token is a row of a table"),
    "add_cross_attention": ((False, None), "the encoder attends to its own text only"),
    "cross_attention_hidden_size": ((None,), "the encoder attends to its own text only"),
    "is_encoder_decoder": ((False, None), "a model is one encoder"),
    "quantization_config": ((None,), "weights are floating-point numbers"),
}
# As COMPUTED, for one class: the ending of its name -> that.
COMPUTED_BY: Mapping[str, Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "ElectraForMultipleChoice": {
        "summary_type": (("first",), "the first token stands for a text"),
        "summary_use_proj": ((True,), "a linear map leads to the last layer"),
        "summary_activation": (("gelu",), "gelu follows it"),
    }
}
# Why they change nothing here -> keys.
WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "dropout of heads, in training alone, where it is hidden_dropout_prob": frozenset(
        {"classifier_dropout", "classifier_dropout_prob", "qa_dropout", "seq_classif_dropout", "summary_last_dropout"}
    ),
    "how Transformers computes the same numbers, and what it returns": frozenset(
        {"_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
         "_experts_implementation_internal", "_output_attentions", "attn_implementation", "chunk_size_feed_forward",
         "dtype", "gradient_checkpointing", "output_attentions", "output_hidden_states", "output_past", "return_dict",
         "tf_legacy_loss", "torch_dtype", "torchscript", "use_bfloat16", "use_cache", "xla_device"}
    ),
    "how texts are generated": frozenset(
        {"bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
         "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
         "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
         "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix", "remove_invalid_values",
         "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "task_specific_params", "temperature",
         "tie_encoder_decoder", "top_k", "top_p", "typical_p"}
    ),
    "ids that the tokenizer's files give": frozenset(
        {"bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "mask_token_id", "sep_token_id",
         "unk_token_id"}
    ),
    "names and versions": frozenset(
        {"_commit_hash", "_name_or_path", "finetuning_task", "label2id", "language", "name", "name_or_path",
         "transformers_version"}
    ),
    "keys of google-research's own files, which its code does not read either": frozenset(
        {"backward_compatible", "directionality", "down_scale_factor", "gap_size", "net_structure_type",
         "num_memory_blocks", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
         "pooler_size_per_head", "pooler_type"}
    ),
    "of other classes than the one that reads them (COMPUTED_BY), or of versions long gone": frozenset(
        {"summary_activation", "summary_type", "summary_use_proj", "tie_weights_"}
    ),
}  # fmt: skip


def check_keys(values: Mapping[str, Any]):
    """Raises ValueError where a configuration asks for something else than what is computed here; names the key."""
    named = values.get("architectures")
    classes = named if isinstance(named, list) else []
    rules = [COMPUTED, *(rules for name, rules in COMPUTED_BY.items() if name in classes)]
    for key, (allowed, computed) in ((key, rule) for each in rules for key, rule in each.items()):
        if key in values and not any(type(values[key]) is type(value) and values[key] == value for value in allowed):
            raise ValueError(
                f"{key} must be {_as_json(allowed[0])} or absent, for here {computed}. Received: "
                f"{brief(values[key])}; take another model."
            )


def say_unknown(path: str, values: Mapping[str, Any], known: Iterable[str]):
    """Names in the log, once for each file, the keys that have no effect because nobody knows them.

    Args:
        path: of the file.
        values: what it says.
        known: the keys that a configuration's reader takes beside those of this file.
    """
    tables = READ.union(known, COMPUTED, *WITHOUT_EFFECT.values(), *COMPUTED_BY.values())
    if unknown := sorted(key for key in values if key not in tables):
        _say(path, tuple(unknown))


@functools.cache
def _say(path, keys):
    logging.warning("%s: settings that are not known here have no effect: %s.", path, ", ".join(keys)[:500])


def _as_json(value):
    return {True: "true", False: "false", None: "null"}.get(value, f'"{value}"')
