"""The added tokens of a model's directory, from all files that Transformers reads, in its order."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.tokenization.added_tokens import ADDED_FILE, DECODER, FLAGS, SPECIAL_LIST, AddedToken, order_added_tokens
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, ROLES, read_config
from bert_tf.tokenization.tokenizer_json import LARGEST, WHOLE_FILE
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

_MAP_FILE = "special_tokens_map.json"
_EXTRA = "extra_special_tokens"  # what Transformers 5 calls them; a list, or names and tokens
_NAMED = ("bos_token", "eos_token")  # the other named tokens are those of the model's rows
_REMEDY = "copy the tokenizer files again from the original model"


@dataclasses.dataclass
class _Found:
    """The added tokens found so far.

    Attributes:
        tokens: content -> token, for tokens with a known id.
        sources: content -> the file it was read from.
    """

    tokens: dict[str, AddedToken] = dataclasses.field(default_factory=dict)
    sources: dict[str, str] = dataclasses.field(default_factory=dict)

    def take(self, token: AddedToken, source: str, replace: bool):
        """Adds a token; with `replace`, the flags of an existing token are replaced."""
        there = self.tokens.get(token.content)
        if there is not None and there.id != token.id:
            raise ValueError(
                f"The tokenizer files disagree about the id of the added token {brief(token.content)}: it is "
                f"{there.id} in {self.sources[token.content]} and {token.id} in {source}; {_REMEDY}."
            )
        if there is None or replace:
            self.tokens[token.content], self.sources[token.content] = token, source


def read_added_tokens(
    directory: str, vocab: Sequence[str], id_of: Callable[[str], int | None], special: Iterable[str]
) -> tuple[AddedToken, ...]:
    """Returns those of `read_listed_tokens` that are not special or come after the vocabulary.

    Args:
        directory, vocab, id_of: as in `read_listed_tokens`.
        special: the special tokens of the model's sequences.
    """
    special = set(special)
    tokens = read_listed_tokens(directory, vocab, id_of)
    return tuple(token for token in tokens if token.content not in special or token.id >= len(vocab))


def read_listed_tokens(
    directory: str, vocab: Sequence[str], id_of: Callable[[str], int | None]
) -> tuple[AddedToken, ...]:
    """Reads the added and special tokens of a directory, in the order of their ids, with the flags of Transformers.

    It reads `added_tokens` of tokenizer.json; `added_tokens_decoder` of tokenizer_config.json, whose flags take
    precedence, or if it is missing, added_tokens.json and special_tokens_map.json; the lists of special tokens, whose
    new ones follow all others; and named tokens with flags, such as `mask_token`, if no other file has them.

    Args:
        directory: directory of the tokenizer files.
        vocab: the tokens of the vocabulary, in the order of their ids.
        id_of: returns the id of a vocabulary token, or None.

    Raises:
        ValueError: a file is damaged, files contradict each other or the vocabulary, or a row of the
            embedding table between the vocabulary and an added token has no token.
    """
    config_path = os.path.join(directory, CONFIG_FILE)
    config, found = read_config(directory), _Found()
    for token in _of_whole_file(os.path.join(directory, WHOLE_FILE)):
        found.take(token, os.path.join(directory, WHOLE_FILE), replace=True)
    lists = _special_lists(directory, config)
    by_file = _of_added_file(os.path.join(directory, ADDED_FILE), {content for content, _, _ in lists})
    if DECODER in config:
        for token in _of_decoder(config_path, config[DECODER]):
            found.take(token, config_path, replace=True)
        _warn_of_ignored(directory, by_file, found)
    else:
        for token in by_file:
            found.take(token, os.path.join(directory, ADDED_FILE), replace=False)
    for token, source in _with_flags(directory, config, id_of):
        found.take(token, source, replace=False)
    _take_lists(found, lists, len(vocab), id_of)
    return order_added_tokens(found.tokens.values(), vocab, id_of, found.sources)


def _of_whole_file(path):
    """Returns the added tokens of tokenizer.json; KerasHub has another file of this name, without such a list."""
    if not os.path.exists(path):
        return []
    listed = read_object(path, "a tokenizer in JSON", _REMEDY, LARGEST).get("added_tokens") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError(
            f"{path}: added_tokens must be a list of objects with a content and an id; got {brief(listed)}; "
            f"{_REMEDY}."
        )
    return [_token(path, each, each.get("id")) for each in listed]


def _of_decoder(path, decoder):
    if not isinstance(decoder, dict):
        raise ValueError(
            f"{path}: {DECODER} must be an object with a token for each id; got {brief(decoder)}; {_REMEDY}."
        )
    return [_token(path, each, int(key) if key.isdecimal() else key) for key, each in decoder.items()]


def _token(path, values, number) -> AddedToken:
    """Returns the token that a JSON object describes; missing fields default as in Transformers' AddedToken."""
    content = values.get("content") if isinstance(values, dict) else None
    flags = {name: values.get(name, False) for name in FLAGS} if isinstance(values, dict) else {}
    if isinstance(values, dict) and "normalized" not in values:
        flags["normalized"] = not flags["special"]
    if not isinstance(content, str) or type(number) is not int or not all(type(v) is bool for v in flags.values()):
        raise ValueError(
            f"{path}: an added token must have a content, an id of 0 or more, and true or false for each of "
            f"{', '.join(FLAGS)}; got {brief(values)} with the id {brief(number)}; {_REMEDY}."
        )
    return AddedToken(content, number, **flags)


def _of_added_file(path, special) -> list[AddedToken]:
    """Returns the contents and ids of added_tokens.json; `special` contains those that are special."""
    if not os.path.exists(path):
        return []
    ids = read_object(path, "added tokens in JSON", _REMEDY)
    wrong = next((content for content, number in ids.items() if type(number) is not int), None)
    if wrong is not None:
        raise ValueError(
            f"{path} must map each token to an id of 0 or more; got {brief(ids[wrong])} for {brief(wrong)}; "
            f"{_REMEDY}."
        )
    return [AddedToken(content, number, normalized=content not in special, special=content in special)
            for content, number in ids.items()]  # fmt: skip


def _special_lists(directory: str, config: Mapping[str, Any]) -> list[tuple[str, dict, str]]:
    """Returns (content, flags, file) of the special tokens that the files list in addition to the template's."""
    found = []
    for path, values in _naming_files(directory, config):
        for key in (*_NAMED, SPECIAL_LIST, _EXTRA):
            listed = values.get(key) or []
            listed = [listed] if key in _NAMED and listed else listed
            listed = list(listed.values()) if isinstance(listed, dict) else listed
            if not isinstance(listed, list):
                raise ValueError(f"{path}: {key} must be a list of tokens; got {brief(listed)}; {_REMEDY}.")
            found += [(*_content_and_flags(path, key, each), path) for each in listed]
    return found


def _naming_files(directory, config):
    """Returns (path, contents) of the files that name special tokens."""
    files = [(os.path.join(directory, CONFIG_FILE), config)]
    path = os.path.join(directory, _MAP_FILE)
    if DECODER not in config and os.path.exists(path):
        files.append((path, read_object(path, "special tokens in JSON", _REMEDY)))
    return files


def _with_flags(directory, config, id_of):
    """Yields (token, file) of the named special tokens in the vocabulary whose flags a file has, with precedence."""
    for path, values in reversed(_naming_files(directory, config)):
        for role in ROLES:
            value = values.get(role)
            number = id_of(value["content"]) if isinstance(value, dict) and "content" in value else None
            if number is not None:
                # Missing flags default as in Transformers: `normalized` to true in tokenizer_config.json alone.
                value = value if os.path.basename(path) == CONFIG_FILE else {**value, "special": True}
                yield dataclasses.replace(_token(path, value, number), special=True), path


def _content_and_flags(path, key, value):
    if isinstance(value, str):
        return value, {"special": True}
    token = _token(path, value, 0)
    return token.content, {name: getattr(token, name) for name in FLAGS} | {"special": True}


def _take_lists(found, lists, size, id_of):
    """Adds the special tokens of the lists; those that have no id yet follow all others, in their order."""
    for content, flags, path in lists:
        if content in found.tokens:
            known = dataclasses.replace(found.tokens[content], special=True)
            found.take(known, found.sources[content], replace=True)
            continue
        behind = max([size - 1, *(token.id for token in found.tokens.values())]) + 1
        number = id_of(content)
        found.take(AddedToken(content, behind if number is None else number, **flags), path, replace=False)


def _warn_of_ignored(directory, by_file, found):
    ignored = [token.content for token in by_file if token.content not in found.tokens]
    if ignored:
        logging.warning(
            "%s lists %s, but %s of %s does not. As in Transformers, the latter is used, so such text is split.",
            *(os.path.join(directory, ADDED_FILE), ", ".join(map(brief, ignored[:10])), DECODER),
            CONFIG_FILE,
        )
