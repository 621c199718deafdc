"""Added tokens: vocabulary entries that are matched in the raw text before tokenization.

Transformers' `add_tokens`, `additional_special_tokens` and the `added_tokens` of tokenizer.json
(huggingface/tokenizers, added_vocabulary.rs).
"""

import dataclasses
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bert_tf.utils.files import brief, write_text

ADDED_FILE = "added_tokens.json"
DECODER, SPECIAL_LIST = "added_tokens_decoder", "additional_special_tokens"  # keys of tokenizer_config.json
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
_JOINERS = "\u200c\u200d"
# Symbols that Unicode counts as letters (Other_Alphabetic).
_LETTER_SYMBOLS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """One added token, with the fields of tokenizer.json.

    Attributes:
        content: the text that is matched.
        id: its row in the embedding table.
        lstrip, rstrip: whether it absorbs whitespace before or after it.
        single_word: whether it matches only if no word character is adjacent.
        normalized: whether it is matched in normalized text (lowercased, without accents) rather than in the original
            text.
        special: whether decoding omits it; this does not affect ids.
    """

    content: str
    id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    special: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the token as an entry of `added_tokens` in tokenizer.json."""
        return dataclasses.asdict(self)


def order_added_tokens(
    tokens: Iterable[AddedToken],
    vocab: Sequence[str],
    id_of: Callable[[str], int | None],
    sources: Mapping[str, str] | None = None,
) -> tuple[AddedToken, ...]:
    """Checks added tokens against a vocabulary and returns them in the order of their ids.

    Args:
        tokens: the added tokens.
        vocab: the tokens of the vocabulary, in the order of their ids.
        id_of: returns the id of a vocabulary token, or None.
        sources: content -> the file it was read from, for messages. If None, the argument `added_tokens` is named.

    Raises:
        ValueError: a token has no text; two share a content or an id; an id differs from the vocabulary's for this
            content, or follows the vocabulary with a gap.
    """
    tokens = tuple(sorted(tokens, key=lambda token: token.id))
    following, seen = len(vocab), set()
    for token in tokens:
        source = (sources or {}).get(token.content, "`added_tokens`")
        if not _is_text(token.content):
            raise ValueError(
                f"{source}: an added token must be a text in valid UTF-8; got {token.content!r} with the id "
                f"{token.id}; remove it."
            )
        if token.content in seen:
            raise ValueError(
                f"{source}: an added token must have one id; got {brief(token.content)} twice, the second time "
                f"with the id {token.id}; remove one of them."
            )
        seen.add(token.content)
        right = following if id_of(token.content) is None else id_of(token.content)
        inside = 0 <= token.id < len(vocab) and vocab[token.id] == token.content
        if not inside and token.id != right:
            raise ValueError(
                f"{source}: the id of an added token must match its line in the vocabulary, or be the next one after "
                f"the vocabulary of {len(vocab)} tokens; got {brief(token.content)} with the id {token.id} instead of "
                f"{right}; copy all tokenizer files from the same model."
            )
        following += token.id == following
    return tokens


def is_word_character(char: str, apart: Iterable[tuple[int, int]]) -> bool:
    r"""Returns whether a character is one of Unicode's \w, next to which a token of single words is not matched.

    Args:
        char: the character.
        apart: (first, last) ranges of code points that are none.
    """
    category, code = unicodedata.category(char), ord(char)
    if any(first <= code <= last for first, last in apart):
        return False
    known = category[0] in "LM" or category in ("Nd", "Nl", "Pc") or char in _JOINERS
    return known or any(first <= code <= last for first, last in _LETTER_SYMBOLS)


def check_normalized(tokens: Iterable[AddedToken], contents: Iterable[str]):
    """Raises ValueError if an added token is empty after normalization: `contents` are those of `tokens`."""
    for token, content in zip(tokens, contents, strict=True):
        if not content:
            raise ValueError(
                "An added token that is matched in normalized text must not be empty after normalization; got "
                f"{brief(token.content)} with the id {token.id}, which the tokenizer's normalizer removes entirely; "
                "remove the token, or set normalized=false for it."
            )


def names_with_added(vocab: Sequence[str], tokens: Iterable[AddedToken]) -> list[str]:
    """Returns the tokens of a vocabulary followed by the added tokens after it, in the order of their ids."""
    return [*vocab, *(token.content for token in tokens if token.id >= len(vocab))]


def _is_text(content):
    try:
        return bool(content.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def added_tokens_config(tokens: Sequence[AddedToken], special: Iterable[AddedToken] = ()) -> dict[str, Any]:
    """Returns the tokenizer_config.json entries for added tokens, as in Transformers; {} if there are none.

    Args:
        tokens: the added tokens.
        special: the special tokens of the model. Transformers resets the flags of those that the entries lack.
    """
    if not tokens:
        return {}
    listed = {t.id: {"content": t.content} | {name: getattr(t, name) for name in FLAGS} for t in (*tokens, *special)}
    decoder = {str(number): listed[number] for number in sorted(listed)}
    special = [token.content for token in tokens if token.special]
    return {DECODER: decoder} | ({SPECIAL_LIST: special} if special else {})


def write_added_tokens(directory: str, tokens: Sequence[AddedToken]):
    """Writes added_tokens.json for older libraries, unless there are no added tokens."""
    if tokens:
        ids = {token.content: token.id for token in tokens}
        write_text(os.path.join(directory, ADDED_FILE), json.dumps(ids, indent=2, ensure_ascii=False) + "\n")
