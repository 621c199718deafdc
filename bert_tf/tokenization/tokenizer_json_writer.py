"""Writes tokenizer.json, with which Hugging Face's tokenizers produce the same ids as bert_tf's.

`tokenizer_json.py` reads it.
"""

import base64
import json
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.tokenization.tokenizer_json import METASPACE, WHOLE_FILE
from bert_tf.utils.files import write_text


def write_tokenizer_json(directory: str, values: dict):
    """Writes tokenizer.json to a directory atomically."""
    write_text(os.path.join(directory, WHOLE_FILE), json.dumps(values, ensure_ascii=False) + "\n")


def wordpiece_json(tokenizer) -> dict:
    """Returns the contents of tokenizer.json for a `WordPieceTokenizer`, as in bert-base-uncased; of several equal
    tokens, the last one's id is used."""
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None if tokenizer.strip_accents == tokenizer.do_lower_case else tokenizer.strip_accents,
        "lowercase": tokenizer.do_lower_case,
    }
    model = {
        "type": "WordPiece",
        "unk_token": tokenizer.vocab[tokenizer.unk_id],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": tokenizer.max_input_chars_per_word,
        "vocab": {token: i for i, token in enumerate(tokenizer.vocab[: tokenizer.file_size]) if token},
    }
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    return _whole(tokenizer, normalizer, {"type": "BertPreTokenizer"}, decoder, model)


def byte_bpe_json(tokenizer, merges: Sequence[tuple[str, str]]) -> dict:
    """Returns the contents of tokenizer.json for a `ByteBpeTokenizer` with these merges, as in roberta-base
    or, with NFC, ModernBERT-base."""
    level = {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space, "trim_offsets": True}
    model: dict[str, Any]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "fuse_unk": False}
    model |= {"end_of_word_suffix": "", "byte_fallback": False, "ignore_merges": False}
    vocab = {token: i for i, token in enumerate(tokenizer.vocab[: tokenizer.file_size])}
    model |= {"vocab": vocab, "merges": list(map(list, merges))}
    level["use_regex"] = True
    return _whole(tokenizer, {"type": "NFC"} if tokenizer.nfc else None, level, level, model)


def sentencepiece_bpe_json(tokenizer, merges: Sequence[tuple[str, str]]) -> dict:
    """Returns the contents of tokenizer.json for a `SentencePieceBpeTokenizer` with these merges, as in mmBERT-base."""
    model: dict[str, Any]
    model = {"type": "BPE", "dropout": None, "unk_token": tokenizer.vocab[tokenizer.unk_id], "fuse_unk": True}
    model |= {"continuing_subword_prefix": None, "end_of_word_suffix": None, "byte_fallback": True}
    vocab = {token: i for i, token in enumerate(tokenizer.vocab[: tokenizer.file_size])}
    model |= {"ignore_merges": False, "vocab": vocab, "merges": list(map(list, merges))}
    marked = {"type": "Replace", "pattern": {"String": " "}, "content": METASPACE}
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    unmarked = {"type": "Replace", "pattern": {"String": METASPACE}, "content": " "}
    decoder = {"type": "Sequence", "decoders": [unmarked, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return _whole(tokenizer, marked, split, decoder, model)


def unigram_json(tokenizer, scores: Sequence[tuple[str, float]], character_map: bytes) -> dict:
    """Returns the contents of tokenizer.json for a unigram tokenizer, as in ALBERT and XLM-RoBERTa.

    Args:
        tokenizer: a `UnigramTokenizer`.
        scores: its tokens and their scores, in the order of the ids.
        character_map: `precompiled_charsmap` of the model.
    """
    metaspace = {"type": "Metaspace", "replacement": METASPACE, "prepend_scheme": "always", "split": True}
    normalizer = {"type": "Sequence", "normalizers": _normalizers(tokenizer, character_map)}
    words = metaspace
    if tokenizer.trailing_space == "dropped":
        words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    model = {"type": "Unigram", "unk_id": tokenizer.unk_id, "vocab": [list(each) for each in scores]}
    return _whole(tokenizer, normalizer, words, metaspace, model | {"byte_fallback": False})


def _whole(tokenizer, normalizer, pre_tokenizer, decoder, model):
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokenizer),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _post_processor(tokenizer),
        "decoder": decoder,
        "model": model,
    }


def _added_tokens(tokenizer):
    """Returns the section `added_tokens`: special tokens and other tokens that are matched in the text itself."""
    special = tokenizer.special_added_tokens
    names = {token.content for token in special}
    others = [token for token in tokenizer.added_tokens if token.content not in names]
    return [token.to_json() for token in sorted([*special, *others], key=lambda token: token.id)]


def _normalizers(tokenizer, character_map):
    quotes = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
    steps: list[dict[str, Any]] = quotes if tokenizer.straight_quotes else []
    steps = steps + ([] if tokenizer.keep_accents else [{"type": "NFKD"}, {"type": "StripAccents"}])
    steps = steps + ([{"type": "Lowercase"}] if tokenizer.do_lower_case else [])
    blob = base64.b64encode(character_map).decode()
    steps = steps + ([{"type": "Precompiled", "precompiled_charsmap": blob}] if character_map else [])
    stripped = tokenizer.trailing_space == "kept_inside"
    steps = steps + ([{"type": "Strip", "strip_left": False, "strip_right": True}] if stripped else [])
    return [*steps, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": METASPACE if stripped else " "}]


def _post_processor(tokenizer):
    template = tokenizer.template
    ids = {name: tokenizer.id_of(name) for name in dict.fromkeys(template.pieces(2))}

    def special(names, segment):
        return [{"SpecialToken": {"id": name, "type_id": segment}} for name in names]

    def text(name, segment):
        return {"Sequence": {"id": name, "type_id": segment}}

    head, second = [*special(template.before, 0), text("A", 0)], template.second_segment
    pair = [*head, *special(template.between, 0), text("B", second), *special(template.after, second)]
    return {
        "type": "TemplateProcessing",
        "single": [*head, *special(template.after, 0)],
        "pair": pair,
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()},
    }
