"""What unigram tokenizers do with single characters: grapheme boundaries, letter case, accents."""

import functools
import unicodedata

from bert_tf.tokenization.characters import assigned

GRAVE, APOSTROPHE, DOUBLE = "`", "'", '"'  # two of the first or of the second are straightened to the third
# What joins the character before it to one grapheme, in addition to marks (Unicode's UAX 29, for characters of up to
# three bytes).
_JOINERS = "\u0e33\u0eb3\u200c\u200d\uff9e\uff9f"
# What joins the character after it (UAX 29's Prepend), such as the signs before numbers in Arabic.
_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46\U00011f02"
)
LONGEST_CLUSTER = 6  # bytes: Hugging Face's tokenizers map shorter graphemes as a whole, others by characters
MARK, JOINER, CONTROL, PREPENDED = 1, 2, 3, 4  # kinds of characters; 0: all others


def kind_of(char: str) -> int:
    """Returns whether a character is a mark, another joiner, a control character that nothing joins, one that joins
    what follows it, or none of these: 0."""
    category = unicodedata.category(char)
    if char in _PREPENDED and category != "Cn":
        return PREPENDED
    if char in _JOINERS:
        return JOINER
    return MARK if category[0] == "M" else CONTROL if category in ("Cc", "Cf", "Zl", "Zp") else 0


def fold(char: str, do_lower_case: bool, strip: bool) -> str:
    """Returns the replacement of a character other than a mark: lowercased, and with `strip` decomposed (NFKD) without
    marks."""
    text = unicodedata.normalize("NFKD", char) if strip else char
    kept = (each for each in text if not strip or unicodedata.category(each)[0] != "M")
    return "".join(each.lower() if do_lower_case else each for each in kept)


@functools.cache
def folded_characters(do_lower_case: bool, strip: bool) -> dict[int, str]:
    """Returns code point -> text of the characters that `fold` changes."""
    if not (do_lower_case or strip):
        return {}
    chars = (c for _, c, category in assigned(ideographs=False) if not strip or category[0] != "M")
    pairs = ((char, fold(char, do_lower_case, strip)) for char in chars)
    return {ord(char): text for char, text in pairs if text != char}
