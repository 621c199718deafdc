"""Decides which file takes precedence if tokenizer.json and the files next to it differ, as in Transformers.

Transformers 4 and 5 always use the vocabulary of tokenizer.json. BertTokenizer and RobertaTokenizer take letter case,
accents and the prefix space from tokenizer_config.json, or use their own defaults if it has no such key.
AlbertTokenizer follows tokenizer_config.json from version 5 on; if it has no such key, tokenizer.json is used here, as
in version 4. The classes that belong to no model follow tokenizer.json alone.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.tokenization.letter_case import case_setting, check_case, resolve_case_and_accents
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, check_tokenizer_config, read_config, without_unread_case
from bert_tf.tokenization.tokenizer_json import WholeFile, is_tokenizer_json, read_whole

_OF_NO_MODEL = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")  # tokenizer_class


def settings_directory(directory: str | os.PathLike, vocab_file: str | os.PathLike | None) -> str:
    """Returns the directory of the tokenizer_config.json that belongs to the vocabulary.

    A tokenizer.json passed instead of the directory's vocabulary uses the one next to it, if any.
    """
    if vocab_file and is_tokenizer_json(vocab_file):
        folder = os.path.dirname(os.fspath(vocab_file))
        if os.path.isfile(os.path.join(folder, CONFIG_FILE)):
            return folder
    return os.fspath(directory)


def counts_alone(config: Mapping[str, Any]) -> bool:
    """Returns whether tokenizer.json takes precedence over tokenizer_config.json, given as `config`."""
    return config.get("tokenizer_class") in _OF_NO_MODEL


def case_and_accents(
    whole: WholeFile, directory: str, do_lower_case: bool | None, own_class: str | None = None
) -> tuple[bool, bool]:
    """Returns whether WordPiece lowercases and strips accents, and logs contradicting settings.

    Args:
        whole: tokenizer.json of a WordPiece tokenizer.
        directory: the model directory.
        do_lower_case: the value requested by the caller. If None, the files decide.
        own_class: as in `check_tokenizer_config`.

    Raises:
        ValueError: as `resolve_case_and_accents`, or tokenizer.json takes precedence and is unsupported.
    """
    config = read_config(directory)
    if not counts_alone(config):
        lower, strip = resolve_case_and_accents(directory, do_lower_case, own_class)
        ours = {"do_lower_case": lower, "strip_accents": strip, "tokenize_chinese_chars": True}
        theirs = dict(whole.said)
        if theirs["strip_accents"] is None:  # as letter case
            theirs["strip_accents"] = lower
        _warn(whole, ours, theirs, _default_of(config, directory))
        return lower, strip
    lower = case_setting(whole.path, whole.said, do_lower_case, True)
    strip = lower if whole.said["strip_accents"] is None else whole.said["strip_accents"]
    if not whole.said["tokenize_chinese_chars"] or (strip and not lower):
        raise ValueError(
            f"{whole.path}: normalizer must have handle_chinese_chars true, and strip_accents only with lowercase; "
            f"got {json.dumps(dict(whole.said))}; other normalization is not supported."
        )
    check_tokenizer_config(os.path.join(directory, CONFIG_FILE), config, "wordpiece", own_class)
    check_case(directory, lower)
    said = {key: config[key] for key in whole.said if config.get(key) is not None}
    _warn(whole, {**whole.said, "strip_accents": strip}, said, whole.path, CONFIG_FILE)
    return lower, strip


def case_of_vocabulary(vocab_file: str, do_lower_case: bool | None) -> tuple[bool, bool]:
    """Returns the same for a WordPiece vocabulary file, vocab.txt or tokenizer.json."""
    directory = os.path.dirname(os.path.abspath(vocab_file))
    if not is_tokenizer_json(vocab_file):
        return resolve_case_and_accents(directory, do_lower_case)
    return case_and_accents(read_whole(vocab_file, "wordpiece"), directory, do_lower_case)


def prefix_space(whole: WholeFile, directory: str) -> bool:
    """Returns whether byte-level BPE prepends a space to a text, and logs contradicting settings."""
    config = read_config(directory)
    theirs = whole.said["add_prefix_space"]
    alone = counts_alone(config)
    ours = theirs if alone else config.get("add_prefix_space", False)
    other = config.get("add_prefix_space", theirs) if alone else theirs
    counting = whole.path if alone else _default_of(config, directory, "add_prefix_space")
    _warn(whole, {"add_prefix_space": ours}, {"add_prefix_space": other}, counting, *[CONFIG_FILE] * alone)
    return ours


def unigram_settings(
    whole: WholeFile, directory: str, do_lower_case: bool | None, own_class: str | None
) -> dict[str, Any]:
    """Returns the `UnigramTokenizer` settings from tokenizer.json and the files next to it, and logs contradictions.

    `own_class` is as in `without_unread_case`.

    Raises:
        ValueError: `do_lower_case` contradicts the file that takes precedence.
    """
    config = without_unread_case(os.path.join(directory, CONFIG_FILE), read_config(directory), own_class)
    keys = ("do_lower_case", "keep_accents")
    said = {key: config[key] for key in keys if config.get(key) is not None}
    ours = {**whole.said, **({} if counts_alone(config) else said)}
    path = os.path.join(directory, CONFIG_FILE)
    counting = path if said and not counts_alone(config) else whole.path
    ours["do_lower_case"] = case_setting(counting, ours, do_lower_case, False)
    if counting == path:
        _warn(whole, {key: ours[key] for key in said}, whole.said, path)
    else:
        _warn(whole, ours, said, whole.path, CONFIG_FILE)
    return {key: ours[key] for key in (*keys, "straight_quotes", "trailing_space")}


def warn_of_vocabulary(counting: str, own: Sequence[str], path: str, tokens: Sequence[str]):
    """Logs a warning if two vocabularies differ.

    Args:
        counting: the path of tokenizer.json.
        own: the tokens of its model.
        path: path of the file next to it.
        tokens: the tokens in that file.
    """
    if list(tokens) == list(own):
        return
    first = next((i for i, pair in enumerate(zip(own, tokens, strict=False)) if pair[0] != pair[1]), None)
    counts = f"{len(own)} tokens and {len(tokens)}"
    where = counts if first is None else f"id {first} is {own[first]!r} and {tokens[first]!r}"
    logging.warning(
        "%s and %s contain different vocabularies (%s). The former takes precedence, as in Transformers.",
        counting,
        path,
        where,
    )


def _default_of(config, directory, key="do_lower_case"):
    path = os.path.join(directory, CONFIG_FILE)
    return path if key in config else f"{path} (by default)"


def _warn(whole, ours, theirs, counting, other=None):
    """Logs the settings in which the file without precedence differs."""
    differing = {key: theirs[key] for key in ours if key in theirs and theirs[key] != ours[key]}
    if differing:
        used = {key: ours[key] for key in differing}
        path = os.path.join(os.path.dirname(whole.path), other) if other else whole.path
        logging.warning(
            "%s has %s, but %s has %s. The latter takes precedence, as in Transformers.",
            *(path, json.dumps(differing), counting, json.dumps(used)),
        )
