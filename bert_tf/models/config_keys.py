"""The keys of configuration files: how Google's and Hugging Face's become fields of `EncoderConfig`, and the others.

Every key that the configuration classes of Transformers read is a field, or in exactly one of the tables below: read
elsewhere, rejected, or without effect. An unknown key is kept, as in google-research/bert, and logged once.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.models import config_files, family_registry
from bert_tf.utils.files import brief

# === Translation ===


ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "tanh", "linear")
ACTIVATION_FIELDS = ("hidden_act", "classifier_act", "conv_act")
# The word "gelu" means two functions: in google-research/bert's modeling.py the tanh approximation, in Hugging Face's
# config.json the exact erf form. Inside this package "gelu" is erf and "gelu_tanh" is tanh; files are distinguished by
# the keys that only Hugging Face writes.
_HUGGING_FACE_KEYS = ("model_type", "architectures", "transformers_version", "layer_norm_eps")
_HUGGING_FACE_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh"}
_GOOGLE_DEFAULTS = {"type_vocab_size": 16}  # what modeling.py assumes when the key is absent; every release says 2


def translate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the contents of a configuration file to the names and values of our fields; unknown keys are kept.

    Args:
        values: contents of bert_config.json, of Hugging Face's config.json, or the output of `EncoderConfig.to_dict`,
            which says "gelu_tanh" itself and is unchanged.

    Raises:
        ValueError: a key has a value that the family or this package does not support.
    """
    hugging_face = any(key in values for key in _HUGGING_FACE_KEYS)
    row = family_registry.family(values.get("model_type", family_registry.DEFAULT))
    if values.get("is_decoder") is True and config_files.ignores_is_decoder(values):
        raise ValueError(
            "is_decoder must be false or absent for this model_type, because its encoder is bidirectional in "
            "Transformers whatever the key says. Received: true; remove the key."
        )
    read = {"hidden_act": "gelu", **row.read(values)}
    for name in ACTIVATION_FIELDS:
        if name == "hidden_act" or read.get(name) is not None:  # without `classifier_act`, there is no such map
            read[name] = _translate_activation(row.key_in(values, name), read[name], hugging_face)
    read = read if hugging_face else {**_GOOGLE_DEFAULTS, **read}
    _check_keys(read)
    return read


def _translate_activation(key, given, hugging_face):
    if not isinstance(given, str):
        raise ValueError(f"{key} must be the name of an activation. Received: {brief(given)}.")
    act = given.lower()
    if act == "gelu" and not hugging_face:
        act = "gelu_tanh"
    act = _HUGGING_FACE_ACTIVATIONS.get(act, act)
    if act not in ACTIVATIONS:
        raise ValueError(f"{key} must be one of {', '.join(ACTIVATIONS)}. Received: {brief(given)}.")
    return act


# === Keys that are not fields ===


# The task of a head, the names of its outputs, the activation of a CrossEncoder, the tokenizer, where positions begin.
READ = frozenset(
    {"architectures", "head_class", "id2label", "num_labels", "pad_token_id", "problem_type",
     "sbert_ce_default_activation_function", "sentence_transformers", "tokenizer_class"}
)  # fmt: skip
# Key -> the supported values, and what they mean; every other value is rejected.
COMPUTED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "position_embedding_type": (("absolute", None), "positions are learned embeddings"),
    "add_cross_attention": ((False, None), "the encoder attends to its own text only"),
    "cross_attention_hidden_size": ((None,), "the encoder attends to its own text only"),
    "is_encoder_decoder": ((False, None), "a model is a single encoder"),
    "quantization_config": ((None,), "weights are floating-point numbers"),
    "rope_scaling": ((None,), "positions are not scaled"),
}
# The same for rotary positions. Transformers' ModernBERT ignores the key; published files have the default of BERT's
# class, or "sans_pos" (as in mmBERT and Ettin), which ModernBERT's training code calls embeddings without positions.
COMPUTED_IF_ROTARY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "position_embedding_type": (("absolute", "sans_pos", None), "positions are rotary"),
}
# As COMPUTED, for one class: the suffix of its name -> its table.
COMPUTED_BY: Mapping[str, Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "ElectraForMultipleChoice": {
        "summary_type": (("first",), "the first token represents a text"),
        "summary_use_proj": ((True,), "a linear projection precedes the last layer"),
        "summary_activation": (("gelu",), "gelu follows the projection"),
    }
}
# Reason why they have no effect -> keys.
WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    "dropout of heads and embeddings during training, for which hidden_dropout_prob is used": frozenset(
        {"classifier_dropout", "classifier_dropout_prob", "embedding_dropout", "qa_dropout", "seq_classif_dropout",
         "summary_last_dropout", "cls_dropout", "pooler_dropout"}
    ),
    "how Transformers computes the same numbers, and what it returns": frozenset(
        {"_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
         "_experts_implementation_internal", "_output_attentions", "attn_implementation", "chunk_size_feed_forward",
         "deterministic_flash_attn", "dtype", "gradient_checkpointing", "initializer_cutoff_factor",
         "output_attentions", "output_hidden_states", "output_past", "reference_compile", "repad_logits_with_grad",
         "return_dict", "sparse_pred_ignore_index", "sparse_prediction", "tf_legacy_loss", "torch_dtype", "torchscript",
         "use_bfloat16", "use_cache", "xla_device"}
    ),
    "text generation": frozenset(
        {"bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
         "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
         "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
         "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix", "remove_invalid_values",
         "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "task_specific_params", "temperature",
         "tie_encoder_decoder", "top_k", "top_p", "typical_p"}
    ),
    "ids that come from the tokenizer files": frozenset(
        {"bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id", "mask_token_id", "sep_token_id",
         "unk_token_id"}
    ),
    "names and versions": frozenset(
        {"_commit_hash", "_name_or_path", "finetuning_task", "label2id", "language", "name", "name_or_path",
         "transformers_version"}
    ),
    "keys of google-research's own files, which its own code ignores": frozenset(
        {"backward_compatible", "directionality", "down_scale_factor", "gap_size", "net_structure_type",
         "num_memory_blocks", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
         "pooler_size_per_head", "pooler_type"}
    ),
    "the base of rotary positions in classes other than ModernBERT, whose keys for it are followed": frozenset(
        {"rope_theta"}
    ),
    "keys of classes other than the one that reads them (COMPUTED_BY), or of old versions": frozenset(
        {"summary_activation", "summary_type", "summary_use_proj", "tie_weights_"}
    ),
}  # fmt: skip


def _check_keys(values):
    """Raises ValueError, naming the key, if a configuration, with our names, has an unsupported setting."""
    named = values.get("architectures")
    classes = named if isinstance(named, list) else []
    computed = {**COMPUTED, **(COMPUTED_IF_ROTARY if values.get("global_rope_theta") is not None else {})}
    rules = [computed, *(rules for name, rules in COMPUTED_BY.items() if name in classes)]
    for key, (allowed, reason) in ((key, rule) for each in rules for key, rule in each.items()):
        if key in values and not any(type(values[key]) is type(value) and values[key] == value for value in allowed):
            stated = ", ".join(json.dumps(value) for value in allowed if value is not None or len(allowed) == 1)
            raise ValueError(
                f"{key} must be {stated} or absent, because {reason} here. Received: {brief(values[key])}; use another "
                "model."
            )


def log_unknown_keys(path: str, values: Mapping[str, Any], known: Iterable[str]):
    """Logs, once per file, the unknown keys, which have no effect.

    Args:
        path: path of the file.
        values: contents of the file.
        known: keys that the reader of the configuration accepts in addition to those of this file.
    """
    tables = READ.union(known, COMPUTED, *WITHOUT_EFFECT.values(), *COMPUTED_BY.values())
    if unknown := sorted(key for key in values if key not in tables):
        config_files.warn_of_unknown_keys(path, tuple(unknown))
