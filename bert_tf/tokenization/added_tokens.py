"""Added tokens: entries of a vocabulary that are matched in the text itself, before the tokenizer splits it.

Transformers' `add_tokens`, `additional_special_tokens` and the `added_tokens` of tokenizer.json
(huggingface/tokenizers, added_vocabulary.rs).
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bert_tf.utils.files import brief, write_text

ADDED_FILE = "added_tokens.json"
DECODER, SPECIAL_LIST = "added_tokens_decoder", "additional_special_tokens"  # keys of tokenizer_config.json
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """One added token, with the fields that tokenizer.json gives it.

    Attributes:
        content: the text that is matched.
        id: its row in the embedding table.
        lstrip, rstrip: whether white space before or after it belongs to it.
        single_word: whether it matches only where no word character stands directly before or after it.
        normalized: whether it is matched in normalized text (in lower case, without accents) rather than in the text
            as it came.
        special: whether decoding leaves it out; it makes no difference to ids.
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


def ordered(
    tokens: Iterable[AddedToken],
    pieces: Sequence[str],
    id_of: Callable[[str], int | None],
    sources: Mapping[str, str] | None = None,
) -> tuple[AddedToken, ...]:
    """Returns added tokens in the order of their ids, having checked that they go with a vocabulary.

    Args:
        tokens: them.
        pieces: of the vocabulary, in the order of their ids.
        id_of: the id of a piece of the vocabulary, or None.
        sources: content -> where it was read, for messages; None: the argument `added_tokens`.

    Raises:
        ValueError: a token has no text; two have one content or one id; an id is not the vocabulary's for this content,
            or lies behind the vocabulary with a gap before it.
    """
    tokens = tuple(sorted(tokens, key=lambda token: token.id))
    following, seen = len(pieces), set()
    for token in tokens:
        source = (sources or {}).get(token.content, "`added_tokens`")
        if not _is_text(token.content):
            raise ValueError(
                f"{source}: an added token must have a text that UTF-8 can hold. Received {token.content!r} with the "
                f"id {token.id}; take it out."
            )
        if token.content in seen:
            raise ValueError(
                f"{source}: an added token must have one id. Received {brief(token.content)} twice, the second time "
                f"with the id {token.id}; take one of them out."
            )
        seen.add(token.content)
        right = following if id_of(token.content) is None else id_of(token.content)
        inside = 0 <= token.id < len(pieces) and pieces[token.id] == token.content
        if not inside and token.id != right:
            raise ValueError(
                f"{source}: the id of an added token must be its line's in the vocabulary, or the next one behind the "
                f"vocabulary of {len(pieces)} tokens. Received {brief(token.content)} with the id {token.id}, where "
                f"{right} was expected; correct the file, or take those of one model."
            )
        following += token.id == following
    return tokens


def names_with(pieces: Sequence[str], tokens: Iterable[AddedToken]) -> list[str]:
    """Returns the tokens of a vocabulary and those added tokens that stand behind it, in the order of their ids."""
    return [*pieces, *(token.content for token in tokens if token.id >= len(pieces))]


def _is_text(content):
    try:
        return bool(content.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def settings_of(tokens: Sequence[AddedToken]) -> dict[str, Any]:
    """Returns what tokenizer_config.json says of added tokens, as Transformers writes it; {} where there are none."""
    if not tokens:
        return {}
    decoder = {str(t.id): {"content": t.content} | {name: getattr(t, name) for name in FLAGS} for t in tokens}
    special = [token.content for token in tokens if token.special]
    return {DECODER: decoder} | ({SPECIAL_LIST: special} if special else {})


def write_file(directory: str, tokens: Sequence[AddedToken]):
    """Writes added_tokens.json, from which older programs read the ids; nothing where there are no added tokens."""
    if tokens:
        ids = {token.content: token.id for token in tokens}
        write_text(os.path.join(directory, ADDED_FILE), json.dumps(ids, indent=2, ensure_ascii=False) + "\n")
