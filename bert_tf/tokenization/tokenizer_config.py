"""Supported and rejected settings in tokenizer_config.json of Transformers.

Every key that a tokenizer of Transformers reads from tokenizer_config.json is in exactly one of the tables below; a
key that is in none of them is logged once.
"""

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.models import config_files
from bert_tf.utils.files import brief, write_text
from bert_tf.utils.json_files import read_object

CONFIG_FILE, SPECIAL_FILE = "tokenizer_config.json", "special_tokens_map.json"
ROLES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
# Keys that are read here or by the tokenizers; some of them apply to one kind of tokenizer only.
FOLLOWED = frozenset(
    {"tokenizer_class", "do_lower_case", "strip_accents", "tokenize_chinese_chars", "do_basic_tokenize",
     "add_prefix_space", "keep_accents", "remove_space", *ROLES}
)  # fmt: skip
# Entries of the vocabulary that are matched in a text before it is split.
ADDED = frozenset(
    {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"}
)
# Key -> the supported values, and what they mean; every other value is rejected.
ONLY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "never_split": ((None, []), "every word is tokenized"),
    "word_tokenizer_type": ((None, "basic"), "words end at whitespace and punctuation"),
    "subword_tokenizer_type": ((None, "wordpiece"), "words are split by WordPiece"),
    "do_word_tokenize": ((None, True), "text is split into words first"),
    "do_subword_tokenize": ((None, True), "words are split further"),
    "mecab_kwargs": ((None,), "there is no morphological analysis"),
    "sudachi_kwargs": ((None,), "there is no morphological analysis"),
    "jumanpp_kwargs": ((None,), "there is no morphological analysis"),
    "spm_file": ((None,), "there is one vocabulary"),
    "vocab_type": ((None, "spm"), "the vocabulary is a SentencePiece model"),
    "split_by_punct": ((None, False), "punctuation is split by the model alone"),
    "sp_model_kwargs": ((None, {}), "a text is always split in the same way"),
    "wordpieces_prefix": ((None, "##"), "this prefix marks tokens that continue a word"),
    "clean_text": ((None, True), "control characters are removed"),
    "split_special_tokens": ((None, False), "added tokens are matched as a whole"),
    "truncation_side": ((None, "right"), "a long text is truncated at its end"),
    "padding_side": ((None, "right"), "padding follows a text"),
    "add_bos_token": ((None, False), "a text has only the special tokens of its family"),
    "add_eos_token": ((None, False), "a text has only the special tokens of its family"),
    "special_tokens_pattern": ((None, "cls_sep"), "a text has only the special tokens of its family"),
    "token_type_ids_pattern": ((None, "bert_style"), "the second of two texts has the segment of its family"),
    "token_type_ids_include_special_tokens": ((None, True), "special tokens have segments, too"),
}
# Kind of tokenizer -> the same for keys that it supports otherwise; a key without None must be there.
OF_KIND: Mapping[str, Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "mecab": {
        "word_tokenizer_type": (("mecab",), "MeCab finds the words"),
        "subword_tokenizer_type": ((None, "wordpiece", "character"), "words are split by these two alone"),
        "mecab_kwargs": (
            (None, *({"mecab_dic": name} for name in ("ipadic", "unidic_lite", "unidic"))),
            "MeCab reads NFKC with one of these dictionaries",
        ),
    }
}
# Reason why they do not affect ids -> keys.
HARMLESS: Mapping[str, frozenset[str]] = {
    "they only affect decoding of ids to text": frozenset(
        {"clean_up_tokenization_spaces", "decode_with_prefix_space", "errors", "spaces_between_special_tokens",
         "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"}
    ),
    "they affect offsets but not ids": frozenset({"trim_offsets"}),
    "the caller sets the maximum length and the padding of a batch": frozenset(
        {"model_max_length", "max_len", "max_length", "padding", "truncation", "stride", "pad_to_multiple_of",
         "pad_token_type_id", "pad_to_max_length", "return_tensors", "truncation_strategy", "return_token_type_ids",
         "return_attention_mask", "_json_padding", "_json_truncation", "tokenizer_padding", "tokenizer_truncation"}
    ),
    "templates only have these tokens as cls_token and sep_token": frozenset({"bos_token", "eos_token"}),
    "the same information is read from tokenizer.json and the vocabulary": frozenset({"post_processor", "unk_id"}),
    "they name files, libraries and versions": frozenset(
        {"vocab_file", "merges_file", "tokenizer_file", "tokenizer", "tokenizer_object", "files_loaded", "vocab",
         "merges", "special_tokens_map_file", "_spm_precompiled_charsmap", "name_or_path", "_name_or_path",
         "full_tokenizer_file", "backend", "is_local", "local_files_only", "from_slow", "use_fast",
         "fast_tokenizer_class", "slow_tokenizer_class", "processor_class", "transformers_version",
         "model_input_names", "verbose", "device_map", "tokenizer_type", "fix_mistral_regex", "gguf_file",
         "_commit_hash", "add_special_tokens", "_from_auto", "_processor_class"}
    ),
    "they are for conversations and images": frozenset(
        {"chat_template", "chat_control_tokens", "response_schema", "response_template", "use_default_system_prompt",
         "image_token"}
    ),
}  # fmt: skip
_WHOLE_FILE_CLASSES = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
# Transformers' classes for unigram models -> the settings of letter case and accents that they read.
CASE_OF_UNIGRAM: Mapping[str, tuple[str, ...]] = {
    "AlbertTokenizer": ("do_lower_case", "keep_accents"), "XLMRobertaTokenizer": (), "CamembertTokenizer": (),
    "DebertaV2Tokenizer": ("do_lower_case",),
}  # fmt: skip
# Kind of tokenizer -> Transformers' classes of this kind; each of them may end in "Fast".
CLASSES: Mapping[str, tuple[str, ...]] = {
    "wordpiece": (
        "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "ErnieTokenizer", "ConvBertTokenizer",
        "LayoutLMTokenizer", "LxmertTokenizer", "MobileBertTokenizer", "RealmTokenizer", "RetriBertTokenizer",
        "SqueezeBertTokenizer", "DPRContextEncoderTokenizer", "DPRQuestionEncoderTokenizer", "DPRReaderTokenizer",
    ),
    "byte_bpe": ("RobertaTokenizer", "BartTokenizer", "LEDTokenizer", "LongformerTokenizer"),
    "mecab": ("BertJapaneseTokenizer",),
    "unigram": tuple(CASE_OF_UNIGRAM),
    "sentencepiece_bpe": _WHOLE_FILE_CLASSES,  # Gemma's own classes change the special tokens around a text
}  # fmt: skip


def read_config(directory: str) -> dict[str, Any]:
    """Reads `tokenizer_config.json` of a directory; returns {} if there is none.

    Raises:
        ValueError: it does not contain a JSON object.
    """
    path = os.path.join(directory, CONFIG_FILE)
    remedy = "fix the file, or remove it"
    return read_object(path, "the settings of a tokenizer in JSON", remedy) if os.path.exists(path) else {}


def write_config(directory: str, tokenizer_class: str, settings: Mapping[str, Any]):
    """Writes `tokenizer_config.json` atomically; `tokenizer_class` is Hugging Face's class name."""
    write_text(os.path.join(directory, CONFIG_FILE), config_text(tokenizer_class, settings))


def config_text(tokenizer_class: str, settings: Mapping[str, Any]) -> str:
    """Returns the text that `write_config` writes."""
    return json.dumps({**settings, "tokenizer_class": tokenizer_class}, indent=2) + "\n"


def check_tokenizer_config(path: str, config: Mapping[str, Any], kind: str, own_class: str | None = None):
    """Checks that the settings of tokenizer_config.json are supported by a kind of tokenizer.

    Args:
        path: path of tokenizer_config.json; config.json next to it may name the tokenizer's class.
        config: contents of the file.
        kind: key of CLASSES.
        own_class: the only class of this kind that the model accepts. If None, any of them.

    Raises:
        ValueError: a setting would give other ids; the message names it.
    """
    _check_class(path, config, kind, own_class)
    for key, (values, computed) in {**ONLY, **OF_KIND.get(kind, {})}.items():
        if (key in config or None not in values) and not any(_equal(config.get(key), value) for value in values):
            stated = [_text(value) for value in values if value is not None] or ["None"]
            remedy = ", which bert_tf does not support"
            if None in values:
                stated, remedy = [*stated, "absent"], "; remove the key to tokenize texts this way anyway"
            raise ValueError(
                f"{path}: {key} must be {' or '.join(stated)}, because in bert_tf {computed}; got "
                f"{brief(config.get(key))}{remedy}."
            )
    if kind == "unigram" and config.get("add_prefix_space") not in (None, True):
        raise ValueError(
            f"{path}: add_prefix_space must be true or absent, because a space is always put before the first word; "
            f"got {brief(config['add_prefix_space'])}, which bert_tf does not support."
        )
    known = FOLLOWED.union(ADDED, ONLY, *HARMLESS.values())
    if unknown := sorted(key for key in config if key not in known):
        _log_unknown(path, tuple(unknown))


def _check_class(path, config, kind, own_class):
    name, where = tokenizer_class_of(path, config)
    if name is None or name in _WHOLE_FILE_CLASSES:
        return
    classes = (own_class,) if own_class else CLASSES[kind]
    if not isinstance(name, str) or name.removesuffix("Fast") not in classes:
        raise ValueError(
            f"{where}: tokenizer_class must be {' or '.join(classes)}, to match the vocabulary next to it; got "
            f"{brief(name)}, which may tokenize texts differently; if it does not, change the key."
        )


def tokenizer_class_of(path, config):
    """Returns the tokenizer's class and the file that names it: tokenizer_config.json, or config.json next to it."""
    name = config.get("tokenizer_class")
    return config_files.tokenizer_class_in(os.path.dirname(path)) if name is None else (name, path)


def without_unread_case(path: str, config: Mapping[str, Any], own_class: str | None) -> dict[str, Any]:
    """Returns the settings of a unigram tokenizer without letter case and accents that its class does not read.

    Args:
        path: path of tokenizer_config.json; config.json next to it may name the tokenizer's class.
        config: contents of the file.
        own_class: the only class that the model accepts. If None, a file names it; by default, both are read.
    """
    name = own_class or str(tokenizer_class_of(path, config)[0]).removesuffix("Fast")
    read = CASE_OF_UNIGRAM.get(name, CASE_OF_UNIGRAM["AlbertTokenizer"])
    unread = [key for key in CASE_OF_UNIGRAM["AlbertTokenizer"] if config.get(key) is not None and key not in read]
    if unread:
        _log_unread(path, name, tuple(unread))
    return {key: value for key, value in config.items() if key not in unread}


@functools.cache
def _log_unread(path, name, keys):
    logging.warning("%s: ignoring %s, which %s does not read in Transformers.", path, " and ".join(keys), name)


@functools.cache
def _log_unknown(path, keys):
    logging.warning("%s: unknown settings are ignored: %s.", path, ", ".join(keys)[:500])


def _equal(value, other):
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _text(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else brief(value)
