"""Token ids back to text, as the decoders of Hugging Face's tokenizers do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.utils.files import brief

# What the WordPiece decoder closes up after joining tokens with spaces (`cleanup` of Hugging Face's tokenizers).
_CLOSED_UP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def id_rows(ids: Any, vocab_size: int) -> tuple[list[list[int]], bool]:
    """Returns (rows of ids, whether there are several rows) for ids in a list, array or tensor [n] or [rows, n].

    Raises:
        ValueError: there are more than two dimensions, or an id is not an integer from 0 to `vocab_size` - 1.
    """
    given = ids.to_list() if hasattr(ids, "to_list") else ids if isinstance(ids, list | tuple) else np.asarray(ids)
    rows = [np.asarray(row) for row in given]
    several = any(row.ndim for row in rows)
    rows = rows if several else [np.asarray([*given])]
    for row in rows:
        whole = row.ndim == 1 and (not row.size or np.issubdtype(row.dtype, np.integer))
        if not whole or (row.size and not 0 <= row.min() <= row.max() < vocab_size):
            wanted = f"`ids` must be integers from 0 to {vocab_size - 1}, in one row or several"
            raise ValueError(f"{wanted}; got {brief(row.tolist())}. Were they made with another tokenizer?")
    return [row.tolist() for row in rows], several


def join_wordpieces(tokens: Sequence[str]) -> str:
    """Joins WordPiece tokens: with spaces, without them before "##" and before closing punctuation."""
    return "".join(_close_up(token, first=not i) for i, token in enumerate(tokens))


def _close_up(token, first):
    if not first:
        token = token[2:] if token.startswith("##") else " " + token
    for spaced, closed in _CLOSED_UP:
        token = token.replace(spaced, closed)
    return token


def join_bytes(texts: Sequence[str]) -> str:
    """Joins the texts of tokens, in which "surrogateescape" stands for bytes; incomplete characters become U+FFFD."""
    return "".join(texts).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
