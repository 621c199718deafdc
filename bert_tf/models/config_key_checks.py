"""The keys of configuration files that are not fields of `EncoderConfig`.

Every key that the configuration classes of Transformers read is a field, or in exactly one of the tables below: read
elsewhere, rejected, or without effect. An unknown key is kept, as in google-research/bert, and logged once.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.models import config_files
from bert_tf.utils.files import brief

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
    "moe_every_n_layers": ((0, None), "all tokens pass through one feed-forward layer"),
    "norm_mlp": ((False, None), "feed-forward layers have no LayerNorm between their maps"),
    "num_heads_kv": ((None,), "every query has a key and a value of its own"),
    "rotary_head_dim": ((False, None), "tokens are rotated by their position"),
}
# The same for rotary positions. Transformers' ModernBERT ignores the key; published files have the default of BERT's
# class, or "sans_pos" (as in mmBERT and Ettin), which ModernBERT's training code calls embeddings without positions.
COMPUTED_IF_ROTARY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "position_embedding_type": (("absolute", "rope", "sans_pos", None), "positions are rotary"),
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
        {"classifier_dropout", "classifier_dropout_prob", "embd_pdrop", "embedding_dropout", "qa_dropout",
         "seq_classif_dropout", "summary_first_dropout", "summary_last_dropout", "cls_dropout", "pooler_dropout"}
    ),
    "how Transformers or published code computes the same numbers, and what it returns": frozenset(
        {"_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
         "_experts_implementation_internal", "_output_attentions", "attn_implementation", "chunk_size_feed_forward",
         "dense_seq_output", "deterministic_flash_attn", "dtype", "fused_bias_fc", "fused_dropout_add_ln",
         "gradient_checkpointing", "initializer_cutoff_factor", "output_attentions", "output_hidden_states",
         "output_past", "pack_qkv", "reference_compile", "reorder_and_upcast_attn", "repad_logits_with_grad",
         "return_dict", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "sparse_pred_ignore_index",
         "sparse_prediction", "tf_legacy_loss", "torch_dtype", "torchscript", "unpad_inputs", "use_bfloat16",
         "use_cache", "use_flash_attn", "use_memory_efficient_attention", "use_xentropy", "xla_device"}
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
    "other people's code, which is never run": frozenset({"auto_map"}),
    "names and versions": frozenset(
        {"_commit_hash", "_name_or_path", "finetuning_task", "label2id", "language", "name", "name_or_path",
         "transformers_version"}
    ),
    "keys of google-research's own files, which its own code ignores": frozenset(
        {"backward_compatible", "directionality", "down_scale_factor", "gap_size", "net_structure_type",
         "num_memory_blocks", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
         "pooler_size_per_head", "pooler_type"}
    ),
    "the base of rotary positions, in the families without them or with another key for it": frozenset(
        {"rope_theta"}
    ),
    "keys of classes other than the one that reads them (COMPUTED_BY), or of old versions": frozenset(
        {"summary_activation", "summary_proj_to_labels", "summary_type", "summary_use_proj", "tie_weights_"}
    ),
}  # fmt: skip


def check_config_keys(values):
    """Raises ValueError, naming the key, if a configuration, with our names, has an unsupported setting."""
    named = values.get("architectures")
    classes = named if isinstance(named, list) else []
    computed = {**COMPUTED, **(COMPUTED_IF_ROTARY if values.get("global_rope_theta") is not None else {})}
    rules = [computed, *(rules for name, rules in COMPUTED_BY.items() if name in classes)]
    for key, (allowed, reason) in ((key, rule) for each in rules for key, rule in each.items()):
        if key in values and not any(type(values[key]) is type(value) and values[key] == value for value in allowed):
            stated = ", ".join(json.dumps(value) for value in allowed if value is not None or len(allowed) == 1)
            raise ValueError(
                f"{key} must be {stated} or absent, because {reason} in bert_tf; got {brief(values[key])}, which is "
                "not supported."
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
