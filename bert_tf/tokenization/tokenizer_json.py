"""Reads tokenizer.json of Hugging Face's tokenizers, and rejects settings that bert_tf's tokenizers do not support.

Every section that affects ids is read: the model, the normalizer, the pre-tokenizer, the post-processor, and the ids of
added tokens. `file_precedence.py` decides which file takes precedence if the files next to it differ;
`tokenizer_json_writer.py` writes the file.
"""

import base64
import binascii
import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from bert_tf.models.family_spec import InputTemplate
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

WHOLE_FILE = "tokenizer.json"
LARGEST = 96 * 2**20  # bytes of a file: of a million tokens, as in XLM-V, with a line for each score, 65 MB
USUAL_LONGEST_WORD = 100  # characters; what Transformers has for max_input_chars_per_word
_MOST_TOKENS, _LONGEST_WORD, _LARGEST_SCORE = 1_000_000, 10_000, 1e6
_KERAS_HUBS = os.path.join("assets", "tokenizer")  # a preset of KerasHub has a file of this name, too
_KINDS = {"WordPiece": "wordpiece", "BPE": "byte_bpe", "Unigram": "unigram"}  # their name of a model -> our KIND
_OF_SENTENCEPIECE = "sentencepiece_bpe"  # our KIND of BPE with byte_fallback
_TYPES = {kind: name for name, kind in _KINDS.items()} | {_OF_SENTENCEPIECE: "BPE"}  # KIND -> their name
_REMEDY = "other settings are not supported"
_SURROGATE = re.compile("[\ud800-\udfff]")
METASPACE = "\u2581"  # stands for the space before a word

# The keys of each section. An unknown key could affect ids, so it is rejected.
_SECTIONS = frozenset(
    ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")
) | {"model"}
_MODEL_KEYS = {
    "wordpiece": ("type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"),
    # Every byte is in the vocabulary, so that nothing is unknown.
    "byte_bpe": ("type", "vocab", "merges", "unk_token", "fuse_unk", "byte_fallback", "dropout", "ignore_merges")
    + ("continuing_subword_prefix", "end_of_word_suffix"),
    "unigram": ("type", "vocab", "unk_id", "byte_fallback"),
}
_MODEL_KEYS[_OF_SENTENCEPIECE] = _MODEL_KEYS["byte_bpe"]


@dataclasses.dataclass(frozen=True)
class WholeFile:
    """The contents of a tokenizer.json file.

    Attributes:
        path: path of the file.
        kind: the KIND of the tokenizer class that implements it.
        tokens: all tokens in the order of their ids, including added ones; "" for an id without a token.
        own: how many of them belong to the model, before the added ones.
        special: the contents of the added tokens that are special.
        model: its section `model`.
        said: the settings of its other sections, under their names in tokenizer_config.json.
        layout: the (token, segment) pairs around one text and around two. If None, there are none.
        character_map: `precompiled_charsmap` of a unigram model.
    """

    path: str
    kind: str
    tokens: list[str]
    own: int
    special: frozenset[str]
    model: Mapping[str, Any]
    said: Mapping[str, Any]
    layout: tuple[list, list] | None
    character_map: bytes = b""

    def vocabulary(self, template: InputTemplate) -> list[str]:
        """Returns the model's own tokens, and the added ones up to the last special token of the template."""
        special = {*template.pieces(2), template.pad, template.unknown, template.mask}
        last = max((i for i, token in enumerate(self.tokens) if token in special), default=-1)
        return self.tokens[: max(self.own, last + 1)]

    def check_template(self, template: InputTemplate, alone: bool):
        """Raises ValueError if the special tokens around texts differ from the model's template.

        Segments are compared if the model has several.

        Args:
            template: the model's template.
            alone: whether the file takes precedence over all others. If not, a file without special tokens leaves them
                to the model's class, as in Transformers 5.
        """
        if self.layout is None and not alone:
            return
        second = template.second_segment
        segmented = bool(second) or (template.segments or 0) > 1
        head = [*((token, 0) for token in template.before), ("$A", 0)]
        pair = [*head, *((token, 0) for token in template.between), ("$B", second)]
        ours = [*head, *((token, 0) for token in template.after)], pair + [(token, second) for token in template.after]
        theirs = self.layout or ([], [])
        if _with_segments(ours, segmented) != _with_segments(theirs, segmented):
            received = " and ".join(map(_format_layout, theirs)) if self.layout else "null"
            raise ValueError(
                f"{self.path}: post_processor must add the special tokens that this model_type uses with a "
                f"{_TYPES[self.kind]} tokenizer: {_format_layout(ours[0])} for one text and "
                f"{_format_layout(ours[1])} for two; got {received:.300}; use the tokenizer.json that belongs to "
                "the model."
            )


def find_tokenizer_json(directory: str | os.PathLike, vocab_file: str | os.PathLike | None = None) -> str | None:
    """Returns the path of the tokenizer.json to use: `vocab_file` if it is one, otherwise that of the directory.

    Args:
        directory: the model directory.
        vocab_file: file to use instead of the directory's vocabulary. If None, the directory's is used.

    Returns:
        The path, or None if `vocab_file` is another file or there is no tokenizer.json.
    """
    if vocab_file:
        return os.fspath(vocab_file) if is_tokenizer_json(vocab_file) else None
    path = os.path.join(os.fspath(directory), WHOLE_FILE)
    is_theirs = os.path.isfile(path) and not os.path.isdir(os.path.join(os.fspath(directory), _KERAS_HUBS))
    return path if is_theirs else None


def is_tokenizer_json(path: str | os.PathLike) -> bool:
    """Returns whether a path names a tokenizer.json."""
    return os.path.basename(os.fspath(path)) == WHOLE_FILE


def remove_repeated_vocabulary(directory: str | os.PathLike, tokenizer):
    """Removes tokenizer.json from a saved tokenizer whose other files have the same vocabulary in less space."""
    if WHOLE_FILE not in tokenizer.FILES:
        os.remove(os.path.join(os.fspath(directory), WHOLE_FILE))


def tokenizer_kind(path: str | os.PathLike) -> str:
    """Returns the KIND of the tokenizer in a tokenizer.json.

    Raises:
        ValueError: the kind is not supported, or the file does not contain a tokenizer.
    """
    return _kind(_read(path), path)


def read_whole(path: str | os.PathLike, kind: str) -> WholeFile:
    """Reads tokenizer.json.

    Args:
        path: path of the file.
        kind: the KIND of tokenizer that it must contain.

    Raises:
        ValueError: it is of another kind, damaged, or has settings that this kind does not support.
    """
    path = os.fspath(path)
    values = _read(path)
    if _kind(values, path) != kind:
        received, remedy = values["model"].get("type"), "use the file of such a model"
        raise _refusal(path, "model.type", repr(_TYPES[kind]), received, remedy)
    if others := sorted(values.keys() - _SECTIONS):
        raise _refusal(path, "its sections", f"among {', '.join(sorted(_SECTIONS))}", others[0])
    model = values["model"]
    _check_keys(path, "model", model, _MODEL_KEYS[kind])
    for section in ("truncation", "padding"):  # our own lengths come from max_seq_length
        part = values.get(section)
        if part is not None and (not isinstance(part, dict) or part.get("direction", "Right") != "Right"):
            raise _refusal(path, f"{section}.direction", "'Right'", part)
    tokens, own, special = _tokens(path, model.get("vocab"), values.get("added_tokens") or [])
    said, blob = _READERS[kind](path, values)
    layout = _layout(path, values.get("post_processor"), {token: i for i, token in enumerate(tokens) if token})
    return WholeFile(path, kind, tokens, own, special, model, said, layout, blob)


def _read(path):
    return read_object(path, "a tokenizer in JSON", "use files from one model", LARGEST)


def _kind(values, path):
    """Returns the kind from the model's type; older files lack it, and are recognized by the model's keys."""
    model = values.get("model")
    model = model if isinstance(model, dict) else {}
    marks = {"continuing_subword_prefix": "WordPiece", "merges": "BPE", "unk_id": "Unigram"}
    guess = next((marks[key] for key in ("merges", "unk_id", "continuing_subword_prefix") if key in model), None)
    name = model.get("type", guess)
    if not isinstance(name, str) or name not in _KINDS:
        raise _refusal(path, "model.type", " or ".join(_KINDS), name, "use a model with one of these tokenizers")
    if name == "BPE" and model.get("byte_fallback") and "ByteLevel" not in json.dumps(values.get("pre_tokenizer")):
        return _OF_SENTENCEPIECE
    return _KINDS[name]


def _refusal(path, where, must, received, remedy=_REMEDY):
    return ValueError(f"{os.fspath(path)}: {where} must be {must}; got {brief(received)}; {remedy}.")


def _check_keys(path, where, values, known):
    if others := sorted(values.keys() - {*known}):
        raise _refusal(path, f"the keys of {where}", f"among {', '.join(known)}", others[0])


def _check_values(path, where, values, good):
    """Checks values against the supported ones, key -> values; a missing key is fine."""
    for key, choices in good.items():
        if key in values and not any(type(values[key]) is type(each) and values[key] == each for each in choices):
            wanted = " or ".join(repr(c) if isinstance(c, str) else json.dumps(c) for c in choices)
            raise _refusal(path, f"{where}.{key}", wanted, values[key])


def _tokens(path, vocab, added):
    """Returns the tokens by id, the number of the model's own tokens, and the special ones; without scores."""
    if isinstance(vocab, list):
        ids = {}
        for i, entry in enumerate(vocab):
            pair = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
            is_score = isinstance(pair[1], (int, float)) and abs(pair[1]) <= _LARGEST_SCORE  # NaN is not
            if not isinstance(pair[0], str) or not is_score:
                raise _refusal(path, f"model.vocab[{i}]", "a token and its score", entry)
            if ids.setdefault(pair[0], i) != i:
                raise _refusal(path, f"model.vocab[{i}]", "a token that no other entry has", entry)
    else:
        ids = dict(check_vocab(vocab, path))
    own = max(ids.values(), default=-1) + 1
    if not isinstance(added, list) or not all(isinstance(t, dict) and isinstance(t.get("content"), str) for t in added):
        raise _refusal(path, "added_tokens", "a list of objects with a content and an id", added)
    for n, token in enumerate(added):
        content, number = token["content"], token.get("id")
        if type(number) is not int or number < 0:
            raise _refusal(path, f"added_tokens[{n}].id", "an id of 0 or more", number)
        if ids.setdefault(content, number) != number:
            raise _refusal(path, f"added_tokens[{n}].id", f"{ids[content]}, as in model.vocab", number)
    check_vocab(ids, path)
    size = max(ids.values(), default=-1) + 1
    if size > _MOST_TOKENS:
        raise _refusal(path, "ids", f"below {_MOST_TOKENS:,}", size - 1)
    tokens: list[str | None] = [None] * size
    for token, i in ids.items():
        if tokens[i] is not None:
            raise _refusal(path, f"the id {i}", "an id of one token", [tokens[i], token])
        tokens[i] = token
    return [token or "" for token in tokens], own, frozenset(t["content"] for t in added if t.get("special"))


def check_vocab(vocab, path) -> dict[str, int]:
    """Returns `vocab`, read from `path`, after checking that it maps tokens to ids."""
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        raise ValueError(
            f"{path} must contain a JSON object that maps each token to an id of 0 or more; got {brief(vocab)}; use "
            "files from one model."
        )
    if broken := next((token for token in vocab if _SURROGATE.search(token)), None):
        raise ValueError(
            f"{path}: a token must be valid Unicode; got half of a surrogate pair in {brief(broken)}; use files "
            "from one model."
        )
    return vocab


def _steps(path, values, section, inside):
    """Returns the steps of a section, which may be one step or a Sequence, as a list of objects."""
    part = values.get(section)
    if part is None:
        return []
    steps = part.get(inside) if isinstance(part, dict) and part.get("type") == "Sequence" else [part]
    if not isinstance(steps, list) or not all(isinstance(s, dict) and isinstance(s.get("type"), str) for s in steps):
        raise _refusal(path, section, "an object with a type, or a Sequence of such objects", part)
    return steps


def _wordpiece(path, values):
    """Returns the settings of BERT's normalizer; pre-tokenizer and model must be BERT's too."""
    model = values["model"]
    _check_values(path, "model", model, {"unk_token": ("[UNK]",), "continuing_subword_prefix": ("##",)})
    longest = model.get("max_input_chars_per_word", USUAL_LONGEST_WORD)
    if type(longest) is not int or not 0 < longest <= _LONGEST_WORD:
        raise _refusal(path, "model.max_input_chars_per_word", f"a number from 1 to {_LONGEST_WORD}", longest)
    steps = _steps(path, values, "normalizer", "normalizers")
    if [step["type"] for step in steps] != ["BertNormalizer"]:
        raise _refusal(path, "normalizer", "BertNormalizer", values.get("normalizer"))
    words = _steps(path, values, "pre_tokenizer", "pretokenizers")
    if [step["type"] for step in words] != ["BertPreTokenizer"]:
        raise _refusal(path, "pre_tokenizer", "BertPreTokenizer", values.get("pre_tokenizer"))
    keys = ("type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    _check_keys(path, "normalizer", steps[0], keys)
    either = (True, False)
    good = {"clean_text": (True,), "handle_chinese_chars": either, "lowercase": either}
    _check_values(path, "normalizer", steps[0], good | {"strip_accents": (None, *either)})
    said = {"do_lower_case": steps[0].get("lowercase", True), "strip_accents": steps[0].get("strip_accents")}
    return said | {"tokenize_chinese_chars": steps[0].get("handle_chinese_chars", True)}, b""


def _bpe_model(path, model):
    """Checks the section of a BPE model."""
    good = {"dropout": (None, 0, 0.0), "ignore_merges": (False,), "continuing_subword_prefix": (None, "")}
    _check_values(path, "model", model, good | {"end_of_word_suffix": (None, "")})
    if not isinstance(model.get("merges"), list):
        raise _refusal(path, "model.merges", "a list", model.get("merges"))


def _byte_bpe(path, values):
    _bpe_model(path, values["model"])
    before = _steps(path, values, "pre_tokenizer", "pretokenizers")
    if [step["type"] for step in before] != ["ByteLevel"]:
        raise _refusal(path, "pre_tokenizer", "ByteLevel", values.get("pre_tokenizer"))
    normalizers = _steps(path, values, "normalizer", "normalizers")
    if normalizers not in ([], [{"type": "NFC"}]):
        raise _refusal(path, "normalizer", "null, as in RoBERTa, or NFC, as in ModernBERT", values["normalizer"])
    _check_keys(path, "pre_tokenizer", before[0], ("type", "add_prefix_space", "trim_offsets", "use_regex"))
    _check_values(path, "pre_tokenizer", before[0], {"use_regex": (True,), "add_prefix_space": (True, False)})
    return {"add_prefix_space": before[0].get("add_prefix_space", True), "nfc": bool(normalizers)}, b""


_MARKED = {"type": "Replace", "pattern": {"String": " "}, "content": METASPACE}
_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"}


def _sentencepiece_bpe(path, values):
    """Checks that spaces become "▁" and nothing else is changed; after that, no space is left at which to split."""
    _bpe_model(path, values["model"])
    if (steps := _steps(path, values, "normalizer", "normalizers")) != [_MARKED]:
        raise _refusal(path, "normalizer", f"Replace of a space by {METASPACE}, as in Gemma and mmBERT", steps)
    before = _steps(path, values, "pre_tokenizer", "pretokenizers")
    if [{**step, "invert": False} for step in before] not in ([], [_SPLIT | {"invert": False}]):
        raise _refusal(path, "pre_tokenizer", "null or a Split at a space, as in Gemma and mmBERT", before)
    return {}, b""


_QUOTES = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
_SPACES = {"Regex": " {2,}"}  # Text is split at white space anyway, so its length does not matter.


def _unigram(path, values):
    """Returns the normalizer steps of ALBERT and XLM-RoBERTa that are present, and the character map."""
    if values["model"].get("byte_fallback"):
        raise _refusal(path, "model.byte_fallback", "false", True)
    steps = _steps(path, values, "normalizer", "normalizers")
    stripped = any(step["type"] == "Strip" and step.get("strip_right") for step in steps)
    spaces = [" ", METASPACE] if stripped else [" "]

    def is_about_spaces(step):
        content = step.get("content") in spaces and step.get("pattern") == _SPACES
        return step["type"] == "Strip" or (step["type"] == "Replace" and content)

    left = [step for step in steps if not is_about_spaces(step)]
    found, blob = {}, b""
    for name, types in (("straight_quotes", _QUOTES), ("strip", ["NFKD", "StripAccents"]), ("lower", ["Lowercase"])):
        begin = left[: len(types)]
        found[name] = begin == types if name == "straight_quotes" else [step["type"] for step in begin] == types
        left = left[len(types) :] if found[name] else left
    if left and left[0]["type"] == "Precompiled":
        blob, left = _character_map(path, left[0]), left[1:]
    if {"type": "NFC"} in left:
        raise ValueError(
            f"{path}: the normalizer must have the model's character map; got NFC instead, as in DeBERTa's "
            "tokenizers saved by Transformers 5, which is not supported. To tokenize texts as Transformers 4 does, "
            "delete this file and copy the spm.model of the published model into its directory."
        )
    if left:
        known = "Replace (of `` and '' by \"), NFKD with StripAccents, Lowercase, Precompiled"
        raise _refusal(path, "the steps of normalizer", f"among {known}, in this order", left[0])
    said: dict[str, Any] = {"do_lower_case": found["lower"], "keep_accents": not found["strip"]}
    kept = "dropped" if _metaspace(path, values) else "kept_inside" if stripped else "kept"
    joined = [step for step in steps if step["type"] == "Replace" and step.get("pattern") == _SPACES]
    if kept != "dropped" and not joined:
        raise _refusal(
            path, "the steps of normalizer", 'with a Replace of " {2,}", because only Metaspace splits', steps
        )
    said |= {"straight_quotes": found["straight_quotes"], "trailing_space": kept}
    return said, blob


def _character_map(path, step):
    try:
        return base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise _refusal(path, "precompiled_charsmap of normalizer", "base64", str(error)) from error


def _metaspace(path, values):
    """Checks the pre-tokenizer; returns whether it splits at all whitespace first."""
    steps = _steps(path, values, "pre_tokenizer", "pretokenizers")
    if [step["type"] for step in steps] not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]):
        raise _refusal(path, "pre_tokenizer", "WhitespaceSplit and Metaspace", values.get("pre_tokenizer"))
    last = steps[-1]
    keys = ("type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep")
    _check_keys(path, "Metaspace of pre_tokenizer", last, keys)
    good = {"replacement": (METASPACE,), "prepend_scheme": ("always",), "split": (True,), "add_prefix_space": (True,)}
    _check_values(path, "Metaspace of pre_tokenizer", last, good)
    return len(steps) > 1


_READERS = {"wordpiece": _wordpiece, "byte_bpe": _byte_bpe, "unigram": _unigram, _OF_SENTENCEPIECE: _sentencepiece_bpe}


def _layout(path, part, ids):
    """Returns the layouts of one text and of two: lists of (token, segment), with $A or $B for a text; or None."""
    steps = _steps(path, {"post_processor": part}, "post_processor", "processors")
    steps = [step for step in steps if step["type"] != "ByteLevel"]  # which trims offsets
    if not steps:
        return None
    kinds = {"BertProcessing": 1, "RobertaProcessing": 2, "TemplateProcessing": 0}
    if len(steps) > 1 or steps[0]["type"] not in kinds:
        raise _refusal(path, "post_processor", f"one of {', '.join(kinds)}", part)
    step = steps[0]
    if separators := kinds[step["type"]]:
        cls, sep = (_processed(path, step, name, ids) for name in ("cls", "sep"))
        second = 1 if separators == 1 else 0
        pair = [(cls, 0), ("$A", 0), *[(sep, 0)] * separators, ("$B", second), (sep, second)]
        return [(cls, 0), ("$A", 0), (sep, 0)], pair
    return tuple(_template(path, step, name, ids) for name in ("single", "pair"))


def _processed(path, step, name, ids):
    """Returns the token of BertProcessing's or RobertaProcessing's [token, id]."""
    match step.get(name):
        case [str(token), int(number)] if ids.get(token) == number:
            return token
    raise _refusal(path, f"post_processor.{name}", "a token of the vocabulary and its id", step.get(name))


def _template(path, step, name, ids):
    row, special, given = [], step.get("special_tokens"), step.get(name) or []
    if not isinstance(given, list):
        raise _refusal(path, f"post_processor.{name}", "a list", given)
    for index, each in enumerate(given):
        where = f"post_processor.{name}[{index}]"
        match each:
            case {"Sequence": {"id": ("A" | "B") as text, "type_id": int(segment)}}:
                row.append((f"${text}", segment))
            case {"SpecialToken": {"id": str(key), "type_id": int(segment)}}:
                match special.get(key) if isinstance(special, dict) else None:
                    case {"ids": [int(number)], "tokens": [str(token)]} if ids.get(token) == number:
                        row.append((token, segment))
                    case other:
                        raise _refusal(path, where, "a token of the vocabulary with its id", other or each)
            case _:
                raise _refusal(path, where, "a Sequence or a SpecialToken", each)
    return row


def _with_segments(layout, segmented):
    """Returns two layouts as seen by a model with or without segments."""
    return [[(name, segmented and segment) for name, segment in row] for row in layout]


def _format_layout(row):
    return " ".join(name if not segment else f"{name}:{segment}" for name, segment in row)
