"""Packs short texts into shared rows of a few fixed sizes, for programs of XLA.

XLA compiles a program for every shape. A batch of texts [B, S] therefore becomes rows of one length L, and their number
is one of a few. L is a multiple of S near `packed_rows.ROW`, so that rows never have more tokens than the batch. NumPy
decides which row a text goes into, before the program is called.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.data.best_fit import Placement, assign_rows
from bert_tf.data.packed_rows import ROW
from bert_tf.data.ragged import ranges

SHARES = (0.25, 0.5, 0.75, 1.0)  # of the rows that a batch fills without packing
SOURCES, INDICES = LAYOUT = "packed_sources", "packed_indices"


def fixed_layout(mask: np.ndarray, parts: int, shares: Sequence[float] = SHARES) -> dict[str, np.ndarray]:
    """Returns where the tokens of a batch are in rows [R, L].

    Args:
        mask: int [B, ..., S], 1 for a token and 0 for padding. Padding before a text's last token is kept.
        parts: number of equal parts, each of which is packed by itself, into as many rows as every other.
        shares: the possible numbers of rows, as shares of those that the batch fills without packing, ascending to 1.

    Returns:
        {`SOURCES`: int32 [R, L], the index of each token in its part's flat list of tokens, -1 for padding;
        `INDICES`: int32 [texts, S], the index of each token of the batch in the flat list of its part's rows, where
        padding points to the text's first token}.
    """
    lengths, placements, most, L = _place(mask, parts)
    S, (_, texts) = mask.shape[-1], lengths.shape
    needed = max(each.num_rows for each in placements)
    number = next(rows for share in shares if (rows := math.ceil(share * most - 1e-6)) >= needed)
    starts = np.stack([each.row * L + each.before(own) for each, own in zip(placements, lengths, strict=True)])
    sources = np.full([parts, number * L], -1, np.int32)
    slots = starts + np.arange(parts)[:, np.newaxis] * number * L
    begins = np.tile(np.arange(texts) * S, parts)
    sources.ravel()[ranges(slots.ravel(), lengths.ravel())] = ranges(begins, lengths.ravel())
    columns = np.where(np.arange(S) < lengths[..., np.newaxis], np.arange(S), 0)
    indices = (starts[..., np.newaxis] + columns).reshape(-1, S)
    return {SOURCES: sources.reshape(-1, L), INDICES: indices.astype(np.int32)}


def usual_shares(masks: Iterable[np.ndarray], parts: int) -> tuple[float, ...]:
    """Returns at most four shares for `fixed_layout` that suit batches like these: for half, nine tenths, and all."""
    needed = []
    for mask in masks:
        _, placements, most, _ = _place(mask, parts)
        needed.append(max(each.num_rows for each in placements) / most)
    return tuple(sorted({1.0, *np.quantile(needed, [0.5, 0.9, 1], method="higher").tolist()}))


def _place(mask, parts):
    """Returns the texts' lengths [parts, texts], the `Placement` of each part, its most rows, and their length."""
    S = mask.shape[-1]
    L = S * max(1, round(ROW / S))
    # A text without tokens gets one padding token.
    lengths = (np.reshape(mask, [-1, S]) * np.arange(1, S + 1)).max(1).clip(1).reshape(parts, -1)
    texts = lengths.shape[1]
    return lengths, [Placement(assign_rows(each, L, texts)) for each in lengths], -(-texts * S // L), L
