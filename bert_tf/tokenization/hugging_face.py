"""What Hugging Face's tokenizers must be told so that they give a model the ids that ours give it."""

import base64
from collections.abc import Sequence

from bert_tf.tokenization.normalization import MARKER

WHOLE_FILE = "tokenizer.json"


def tokenizer_json(tokenizer, scores: Sequence[tuple[str, float]], character_map: bytes):
    """Returns what tokenizer.json says of a unigram tokenizer, as the published ones of ALBERT and XLM-RoBERTa do.

    Args:
        tokenizer: a `UnigramTokenizer`.
        scores: its pieces and their scores, in the order of the ids.
        character_map: `precompiled_charsmap` of the model.
    """
    names = dict.fromkeys(tokenizer.special_tokens.values())
    ids = {name: tokenizer.vocab.index(name) for name in names}
    added = [
        {"id": ids[name], "content": name, "single_word": False, "lstrip": name == tokenizer.mask, "rstrip": False}
        | {"normalized": False, "special": True}
        for name in sorted(names, key=ids.get)
    ]
    metaspace = {"type": "Metaspace", "replacement": MARKER, "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(tokenizer, character_map)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": _post_processor(tokenizer.template, ids),
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": tokenizer.unk_id, "vocab": [list(each) for each in scores]}
        | {"byte_fallback": False},
    }


def _normalizers(tokenizer, character_map):
    quotes = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
    steps = quotes if tokenizer.straight_quotes else []
    steps = steps + ([] if tokenizer.keep_accents else [{"type": "NFKD"}, {"type": "StripAccents"}])
    steps = steps + ([{"type": "Lowercase"}] if tokenizer.do_lower_case else [])
    blob = base64.b64encode(character_map).decode()
    steps = steps + ([{"type": "Precompiled", "precompiled_charsmap": blob}] if character_map else [])
    return [*steps, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]


def _post_processor(template, ids):
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
        "special_tokens": {
            name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in dict.fromkeys(template.pieces(2))
        },
    }
