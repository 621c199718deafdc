"""tokenizer_config.json of Transformers: supported and rejected settings, letter case, special tokens.

Every key that a tokenizer of Transformers reads from tokenizer_config.json is in exactly one of the tables below; a
key that is in none of them is logged once.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.models import config_files, family_registry
from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.utils.files import brief, write_text
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import MASK, PAD, UNKNOWN

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
    "word_tokenizer_type": ((None, "basic"), "words end at white space and punctuation"),
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
    "AlbertTokenizer": ("do_lower_case", "keep_accents"), "XLMRobertaTokenizer": (),
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
    "unigram": tuple(CASE_OF_UNIGRAM),
}  # fmt: skip
_OF_WORDPIECE = {"pad_token": PAD, "unk_token": UNKNOWN, "mask_token": MASK}


def read_config(directory: str) -> dict[str, Any]:
    """Reads `tokenizer_config.json` of a directory; returns {} if there is none.

    Raises:
        ValueError: it does not hold a JSON object.
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
    for key, (values, computed) in ONLY.items():
        if key in config and not any(_equal(config[key], value) for value in values):
            raise ValueError(
                f"{path}: {key} must be {_text(values[-1])} or absent, because here {computed}. Received: "
                f"{brief(config[key])}; use another model, or remove the key to tokenize its texts this way anyway."
            )
    if kind == "unigram" and config.get("add_prefix_space") not in (None, True):
        raise ValueError(
            f"{path}: add_prefix_space must be true or absent, because a space is always put before the first word. "
            f"Received: {brief(config['add_prefix_space'])}; use another model."
        )
    known = FOLLOWED.union(ADDED, ONLY, *HARMLESS.values())
    if unknown := sorted(key for key in config if key not in known):
        _log_unknown(path, tuple(unknown))


def _check_class(path, config, kind, own_class):
    name, where = _class_named(path, config)
    if name is None or name in _WHOLE_FILE_CLASSES:
        return
    classes = (own_class,) if own_class else CLASSES[kind]
    if not isinstance(name, str) or name.removesuffix("Fast") not in classes:
        raise ValueError(
            f"{where}: tokenizer_class must be {' or '.join(classes)}, to match the vocabulary next to it. "
            f"Received: {brief(name)}, which may tokenize texts differently; use another model, or correct the key if "
            "it does not."
        )


def _class_named(path, config):
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
    name = own_class or str(_class_named(path, config)[0]).removesuffix("Fast")
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


# === Letter case ===


# Directory names of Google's releases after unpacking.
_LOWER_NAMES = re.compile(r"(wwm_)?uncased_L-.*|(multilingual|chinese)_L-12_H-768_A-12")
_CASED_NAMES = re.compile(r"(wwm_|multi_)?cased_L-.*")


def check_case(init_checkpoint: str | os.PathLike | None, do_lower_case: bool):
    """Raises ValueError if the letter case contradicts the name of a google-research/bert release.

    Args:
        init_checkpoint: a checkpoint directory or prefix, such as ".../cased_L-12_H-768_A-12/bert_model.ckpt"; None and
            names that are not of a release pass.
        do_lower_case: the requested letter case.

    Raises:
        ValueError: they disagree.
    """
    parts = os.path.normpath(os.fspath(init_checkpoint)).split(os.sep)[-2:] if init_checkpoint else []
    for name in parts:
        lower, cased = _LOWER_NAMES.fullmatch(name), _CASED_NAMES.fullmatch(name)
        if (lower and not do_lower_case) or (cased and do_lower_case):
            raise ValueError(
                f"`do_lower_case` does not match the checkpoint: {name} was trained on "
                f"{'lowercase' if lower else 'cased'} text, but `do_lower_case` is {json.dumps(do_lower_case)}. "
                f"Set `do_lower_case={json.dumps(bool(lower))}`."
            )


def resolve_case_and_accents(directory: str, do_lower_case: bool | None) -> tuple[bool, bool]:
    """Returns (do_lower_case, strip_accents).

    The letter case is the requested one, that of `tokenizer_config.json`, or True. Accents are stripped from lowercased
    text unless `tokenizer_config.json` keeps them.

    Raises:
        ValueError: the file contradicts the request, or has a setting that Google's algorithm does not support.
    """
    path = os.path.join(directory, CONFIG_FILE)
    config = read_config(directory)
    chosen = case_setting(path, config, do_lower_case, True)
    strip = config.get("strip_accents")
    _refuse_foreign_settings(path, config, chosen)
    check_tokenizer_config(path, config, "wordpiece")
    check_case(directory, chosen)
    return chosen, chosen and strip is not False


def case_setting(path: str, config, do_lower_case: bool | None, default: bool) -> bool:
    """Returns the requested do_lower_case, or that of `config`, which was read from `path`, or `default`.

    Raises:
        ValueError: the two contradict each other.
    """
    stored = config.get("do_lower_case")
    if stored is not None and not isinstance(stored, bool):
        raise ValueError(f"{path}: do_lower_case must be true or false. Received: {brief(stored)}.")
    if None not in (stored, do_lower_case) and stored != do_lower_case:
        raise ValueError(
            f"`do_lower_case` does not match the checkpoint: {path} has {json.dumps(stored)}. Received: "
            f"{json.dumps(do_lower_case)}; omit `do_lower_case`."
        )
    return next(value for value in (do_lower_case, stored, default) if value is not None)


def case_settings(do_lower_case: bool, strip_accents: bool) -> dict[str, bool]:
    """Returns the settings from which `resolve_case_and_accents` restores these two values."""
    accents = {} if strip_accents == do_lower_case else {"strip_accents": strip_accents}
    return {"do_lower_case": do_lower_case} | accents


def _refuse_foreign_settings(path, config, do_lower_case):
    """Raises ValueError for settings that would silently give other ids than those the model was trained on."""
    ours = {"tokenize_chinese_chars": True, "do_basic_tokenize": True}
    ours |= {} if do_lower_case else {"strip_accents": False}  # lowercasing alone is used by models of other languages
    for key, value in ours.items():
        if config.get(key) not in (None, value):
            raise ValueError(
                f"{path}: {key} must be {json.dumps(value)} or absent with do_lower_case {json.dumps(do_lower_case)}, "
                f"as in google-research/bert's algorithm. Received: {json.dumps(config[key]):.200}; "
                "remove the key to use Google's algorithm anyway."
            )


# === Special tokens ===


def family_of_tokenizer(
    path: str,
    config: Mapping[str, Any],
    kind: str,
    family: Family,
    template: InputTemplate,
    layout: tuple[list, list] | None,
) -> tuple[Family, InputTemplate]:
    """Returns the family whose tokenizer a model has, and the model's template with it.

    It is the model's family unless the special tokens in tokenizer.json, or else the tokenizer's class, are those of
    another: intfloat/multilingual-e5-small is a BERT model with XLM-RoBERTa's tokenizer.

    Args:
        path: path of tokenizer_config.json; config.json next to it may name the tokenizer's class.
        config: contents of the file.
        kind: key of CLASSES.
        family: the model family.
        template: the model's template.
        layout: special tokens and segments in tokenizer.json, as in `WholeFile`. If None, there are none.
    """
    name = str(_class_named(path, config)[0]).removesuffix("Fast")
    found = [tuple(token for token, _ in row if token not in ("$A", "$B")) for row in layout or ()]

    def is_owner(other):
        theirs, own_class = other.template, other.tokenizing.get("tokenizer_class")
        if other.tokenizer != kind or own_class is None or theirs.pieces(2) == template.pieces(2):
            return False
        return found == [theirs.pieces(1), theirs.pieces(2)] if found else name == own_class

    owner = next(filter(is_owner, family_registry.FAMILIES.values()), None)
    if owner is None or kind == family.tokenizer:
        return family, template
    return owner, dataclasses.replace(owner.template, segments=template.segments)


def with_special_tokens(
    directory: str | os.PathLike, config: Mapping[str, Any], kind: str, family: Family, template: InputTemplate | None
) -> InputTemplate:
    """Returns the input template with the special tokens named in a directory's files.

    A tokenizer that is not the family's own has the template of its class in Transformers: WordPiece has BERT's (as in
    klue/roberta), byte-level BPE RoBERTa's. `family_of_tokenizer` gives that of unigram.

    Args:
        directory: the directory, which may hold special_tokens_map.json.
        config: contents of tokenizer_config.json.
        kind: key of CLASSES.
        family: the model family.
        template: the model's template. If None, the family's.

    Raises:
        ValueError: a token is not a string, or WordPiece would need another padding, unknown or mask token.
    """
    named = special_tokens_in(directory, config)
    template = _of_kind(kind, family, template or family.template)
    if kind == "wordpiece":
        for role, token in _OF_WORDPIECE.items():
            if named.get(role, token) != token:
                raise ValueError(
                    f"{role} in {directory} must be {token} for a WordPiece model. Received: {brief(named[role])}; use "
                    "another model."
                )
    texts = {template.before[0]: named.get("cls_token"), template.after[-1]: named.get("sep_token")}
    parts = {name: tuple(texts.get(token) or token for token in getattr(template, name)) for name in _PARTS}
    fields = {name: named[role] for role, name in _FIELDS.items() if role in named}
    return dataclasses.replace(template, **parts, **fields)


_PARTS = ("before", "between", "after")
_FIELDS = {"pad_token": "pad", "unk_token": "unknown", "mask_token": "mask"}


def _of_kind(kind, family, template):
    """Returns the template of the kind of tokenizer if it is not the family's own."""
    if kind == family.tokenizer or kind == "unigram":
        return template
    own = family_registry.with_tokenizer(kind).template
    if own.pieces(2) == template.pieces(2):
        return template
    segments = template.segments
    several = template.second_segment if segments is None else segments > own.second_segment
    return dataclasses.replace(own, second_segment=own.second_segment if several else 0, segments=segments)


def special_tokens_in(directory: str | os.PathLike, config: Mapping[str, Any]) -> dict[str, str]:
    """Returns role -> special token for the ROLES named in a directory's files.

    special_tokens_map.json is used if tokenizer_config.json does not list the added tokens, as in Transformers.

    Raises:
        ValueError: a token is not a string.
    """
    path = os.path.join(os.fspath(directory), SPECIAL_FILE)
    named = {role: config[role] for role in ROLES if config.get(role) is not None}
    if os.path.isfile(path) and "added_tokens_decoder" not in config:
        there = read_object(path, "the special tokens of a tokenizer in JSON", "fix the file, or remove it")
        named |= {role: there[role] for role in ROLES if there.get(role) is not None}
    tokens: dict[str, Any]
    tokens = {role: token.get("content") if isinstance(token, dict) else token for role, token in named.items()}
    for role, token in tokens.items():
        if not isinstance(token, str) or not token:
            raise ValueError(f"{role} in {directory} must be a string. Received: {brief(named[role])}; correct it.")
    return tokens
