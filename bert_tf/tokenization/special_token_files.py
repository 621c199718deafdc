"""Special tokens according to the files of a tokenizer, and the family that they belong to."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from bert_tf.models import family_registry
from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization.tokenizer_config import ROLES, SPECIAL_FILE, tokenizer_class_of
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object


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
    name = str(tokenizer_class_of(path, config)[0]).removesuffix("Fast")
    found = [tuple(token for token, _ in row if token not in ("$A", "$B")) for row in layout or ()]

    def is_owner(other):
        theirs, own_class = other.template, other.tokenizing.get("tokenizer_class")
        if other.tokenizer != kind or own_class is None or theirs.pieces(2) == template.pieces(2):
            return False
        return found == [theirs.pieces(1), theirs.pieces(2)] if found else name == own_class

    owners = list(filter(is_owner, family_registry.FAMILIES.values()))
    named = (owner for owner in owners if owner.tokenizing["tokenizer_class"] == name)
    owner = next(named, next(iter(owners), None))
    if owner is None or kind == family.tokenizer:
        return family, template
    return owner, dataclasses.replace(owner.template, segments=template.segments)


def with_special_tokens(
    directory: str | os.PathLike, config: Mapping[str, Any], kind: str, family: Family, template: InputTemplate | None
) -> InputTemplate:
    """Returns the input template with the special tokens named in a directory's files.

    A tokenizer that is not the family's own has the template of its class in Transformers: WordPiece has BERT's (as in
    klue/roberta), byte-level BPE RoBERTa's. `family_of_tokenizer` gives that of unigram, tokenizer.json that of BPE
    with byte_fallback.

    Args:
        directory: the directory, which may contain special_tokens_map.json.
        config: contents of tokenizer_config.json.
        kind: key of CLASSES.
        family: the model family.
        template: the model's template. If None, the family's.

    Raises:
        ValueError: a token is not a string, or WordPiece would need another padding, unknown or mask token.
    """
    named = special_tokens_in(directory, config)
    template = _of_kind(kind, family, template or family.template)
    if kind in ("wordpiece", "mecab"):
        for role, name in _FIELDS.items():
            token = getattr(template, name)
            if named.get(role, token) != token:
                raise ValueError(
                    f"{role} in {directory} must be {token} for a WordPiece model; got {brief(named[role])}, which "
                    "bert_tf does not support."
                )
    texts = {template.before[0]: named.get("cls_token"), template.after[-1]: named.get("sep_token")}
    parts = {name: tuple(texts.get(token) or token for token in getattr(template, name)) for name in _PARTS}
    fields = {name: named[role] for role, name in _FIELDS.items() if role in named}
    return dataclasses.replace(template, **parts, **fields)


_PARTS = ("before", "between", "after")
_FIELDS = {"pad_token": "pad", "unk_token": "unknown", "mask_token": "mask"}


def _of_kind(kind, family, template):
    """Returns the template of the kind of tokenizer if it is not the family's own; others have chosen theirs before."""
    if kind == family.tokenizer or kind in ("unigram", "sentencepiece_bpe"):
        return template
    own = family_registry.with_tokenizer(kind).template
    if own.pieces(2) == template.pieces(2):
        return dataclasses.replace(template, pad=own.pad, unknown=own.unknown, mask=own.mask)
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
            raise ValueError(f"{role} in {directory} must be a string; got {brief(named[role])}.")
    return tokens
