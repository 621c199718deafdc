"""The cut of texts far beyond the tokens that are read, as `export/text_cut.py` does it in the graph."""

import functools
import re

_LEAST_BYTES, _BYTES_OF_A_TOKEN = 2**16, 256
_UTF8_BYTES = 4  # of a character, at most
_SEPARATORS = " \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # \p{Zs}, which Python's expressions lack


def cut_text(text: str, tokens: int, spaces: str = "") -> str:
    """Cuts a text to 64 KiB of UTF-8, or 256 bytes per token if that is more, which is enough for `tokens` tokens.

    Args:
        text: text of any length.
        tokens: number of tokens that are read.
        spaces: `TokenizerTables.SPACES`, which are collapsed into one space before the cut.
    """
    most = max(_LEAST_BYTES, _BYTES_OF_A_TOKEN * tokens)
    if len(text) <= most // _UTF8_BYTES:
        return text
    if spaces:
        text = _expression(spaces).sub(" ", text)
    return text[:most].encode()[:most].decode("utf-8", "ignore")


@functools.cache
def _expression(spaces):
    return re.compile(spaces.replace(r"\p{Zs}", _SEPARATORS))
