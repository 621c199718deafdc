"""Added tokens: entries of a vocabulary that are matched in the text itself, before the tokenizer splits it.

Transformers' `add_tokens`, `additional_special_tokens` and the `added_tokens` of tokenizer.json (huggingface/tokenizers,
added_vocabulary.rs).
"""

import dataclasses
from typing import Any


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
