"""Which pieces of a row the model has to guess, and what it sees in their place.

Pieces are chosen in groups: single pieces, words, or spans of words. A group is a run of positions side by side.
"""

import dataclasses

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.pretraining.pieces import Pieces
from bert_tf.names import MASKINGS

# SpanBERT (arXiv 1907.10529, section 3.1): words of a span, geometric with p = 0.2, at most 10, 3.8 in the mean.
_SPANS = np.arange(1, 11)
_CHANCES = 0.8**_SPANS / np.sum(0.8**_SPANS)

_HIDDEN, _SWAPPED, _KEPT = 1, 2, 3  # what happens to a chosen position; 0 is one that was not chosen


@dataclasses.dataclass(frozen=True)
class Masking:
    """How to choose and to hide.

    Attributes:
        kind: what is chosen together: "token" a piece, "whole_word" all pieces of a word, "span" some words in a row.
        prob: share of an example's pieces, [CLS] and [SEP] counted too, that is chosen.
        max_predictions: pieces chosen in a row at most: M below.
        mask_rate: share of the chosen pieces that becomes [MASK].
        random_rate: share that becomes a random piece; the rest stays as it is.
    """

    kind: str = "token"
    prob: float = 0.15
    max_predictions: int = 20
    mask_rate: float = 0.8
    random_rate: float = 0.1

    def __post_init__(self):
        if self.kind not in MASKINGS:
            raise ValueError(f"The kind of masking must be one of {', '.join(MASKINGS)}. Received {self.kind!r}.")
        if self.max_predictions < 1:
            raise ValueError(f"max_predictions must be 1 or more. Received {self.max_predictions}.")
        if not 0 <= self.prob <= 1:
            raise ValueError(f"The share of masked pieces, prob, must lie between 0 and 1. Received {self.prob}.")
        if min(self.mask_rate, self.random_rate) < 0 or self.mask_rate + self.random_rate > 1:
            raise ValueError(
                "mask_rate and random_rate must not be negative, nor be more than 1 together. "
                f"Received {self.mask_rate} and {self.random_rate}."
            )


def mask(input_ids, masking: Masking, pieces: Pieces, rng) -> dict:
    """Chooses positions of each row and hides what stands there (BERT, arXiv 1810.04805, section 3.1, "Masked LM").

        input_ids            [CLS]   my   dog   is  hairy [SEP] [PAD]       two chosen, M = 3
        input_ids, masked    [CLS]   my [MASK]  is  hairy [SEP] [PAD]       dog is hidden, hairy is kept
        masked_lm_positions     2     4     0
        masked_lm_ids         dog  hairy    0
        masked_lm_weights       1     1     0

    Groups are taken in a random order, each with the same chance, and skipped where they no longer fit into the row's
    budget of min(M, max(1, round(prob x its pieces))), as in google-research/bert, create_masked_lm_predictions. So a
    row gets its budget of pieces, or less where no word that is left fits. Where all words of a row are longer than its
    budget, one of the shortest is taken nevertheless, if M has room for it: else the row would teach nothing.

    A word is a piece and the "##" pieces after it, but never goes on over a special piece. Special pieces are not
    chosen, [UNK] neither.

    Spans differ from SpanBERT's, which are drawn one by one anywhere and may run into each other: here the row is
    divided into spans, whose lengths in words have SpanBERT's distribution, and some of these are chosen. Two of them
    may be neighbours; none goes over a special piece. One that does not fit is cut after the words that do (so the
    first word of a text is chosen a little more often than others), and single words fill what may still be left. A
    span has one draw for its fate (all hidden, random or kept), as SpanBERT's; of the other groups each piece has its
    own.

    A random piece is any but a special one, with equal chances (google-research/bert draws from the whole vocabulary).

    Args:
        input_ids: int [n, S], padded with [PAD]; not changed.
        masking: how many of which.
        pieces: of the vocabulary.
        rng: a np.random.Generator.

    Returns:
        "input_ids": int32 [n, S], masked; "masked_lm_positions" (ascending), "masked_lm_ids": int32 [n, M] and
        "masked_lm_weights": float32 [n, M], which is 1.0 for a prediction and 0.0, as the others, for padding.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """
    if pieces.mask_id is None:
        raise ValueError(
            "Masking must have a vocabulary with the piece [MASK]. "
            f"Received one of {len(pieces.special)} pieces without it; add a line [MASK] to the vocabulary file."
        )
    input_ids = np.ascontiguousarray(input_ids)
    fate = _fates(*_chosen_groups(input_ids, masking, pieces, rng), masking, input_ids.size, rng)
    place = np.flatnonzero(fate)
    original, fate = input_ids.ravel()[place].astype(np.int32), fate[place]
    masked = input_ids.astype(np.int32)  # a copy
    masked.ravel()[place] = np.where(fate == _HIDDEN, np.int32(pieces.mask_id), original)
    swapped = place[fate == _SWAPPED]
    masked.ravel()[swapped] = rng.choice(np.flatnonzero(~pieces.special), len(swapped))
    return {"input_ids": masked, **_predictions(place, original, input_ids.shape, masking.max_predictions)}


def _predictions(place, original, shape, width):
    """The features of the chosen pieces: their places in the flat rows, ascending, and their ids, both int [k]."""
    row, column = np.divmod(place, shape[1])
    to = row, np.arange(len(row)) - np.searchsorted(row, np.arange(shape[0]))[row]
    positions, ids, weights = (np.zeros((shape[0], width), dtype) for dtype in (np.int32, np.int32, np.float32))
    positions[to], ids[to], weights[to] = column, original, 1.0
    return {"masked_lm_positions": positions, "masked_lm_ids": ids, "masked_lm_weights": weights}


def _fates(starts, lengths, masking, size, rng):
    """uint8 [size]: what happens to each position of the flat rows, given the chosen groups."""
    place = ragged.ranges(starts, lengths)
    draw = np.repeat(rng.random(len(starts)), lengths) if masking.kind == "span" else rng.random(len(place))
    swapped = np.where(draw < masking.mask_rate + masking.random_rate, np.uint8(_SWAPPED), np.uint8(_KEPT))
    fate = np.zeros(size, np.uint8)
    fate[place] = np.where(draw < masking.mask_rate, np.uint8(_HIDDEN), swapped)
    return fate


def _chosen_groups(input_ids, masking, pieces, rng):
    """Starts in the flat rows and lengths of the groups that are chosen, int64 [k] each."""
    free = ~pieces.special[input_ids]
    if masking.kind == "token":
        return _choose_pieces(free, _budgets(input_ids, masking, pieces, np.ones(1, np.int64)), rng)
    after = np.zeros_like(free)  # whether the position before is free too
    after[:, 1:] = free[:, :-1]
    words = free & ~(pieces.continuation[input_ids] & after)
    sizes = _sizes(words, free)
    shortest = np.where(words, sizes, words.shape[1]).min(axis=1, initial=words.shape[1])
    left = _budgets(input_ids, masking, pieces, shortest)
    every = np.arange(len(words))
    if masking.kind != "span":
        return _choose(words, sizes, words, left, every, rng)
    spans = _spans(words, words & ~after, rng)
    starts, lengths = _choose(spans, _sizes(spans, free), words, left, every, rng)
    words.ravel()[ragged.ranges(starts, lengths)] = False  # what may still be chosen
    more = _choose(words, sizes, words, left, np.flatnonzero(left), rng)
    return np.concatenate([starts, more[0]]), np.concatenate([lengths, more[1]])


def _budgets(input_ids, masking, pieces, shortest):
    """int64 [n]: how many positions to choose in each row, given the size of its shortest word, int [n] or [1]."""
    share = np.rint(masking.prob * np.count_nonzero(input_ids != pieces.pad_id, axis=1))  # as Python's round
    return np.minimum(masking.max_predictions, np.maximum(shortest, share.astype(np.int64)))


def _choose_pieces(free, budgets, rng):
    """What `_choose` gives where every group is a single position: the first ones in a random order."""
    order, low = _random_order(free, rng)
    chosen = np.arange(free.shape[1]) < np.minimum(budgets, np.count_nonzero(free, axis=1))[:, None]
    column = (order & low)[chosen]
    row = np.repeat(np.arange(len(free)), np.count_nonzero(chosen, axis=1))
    return row * free.shape[1] + column, np.ones(len(row), np.int64)


def _random_order(starts, rng):
    """uint32 [n, S]: the columns of the groups (bool [n, S]) in a random order, then others; and their mask of bits."""
    width = starts.shape[1]
    low = np.uint32((1 << (width - 1).bit_length()) - 1)
    # Random numbers are sorted with their columns in the lowest bits: much faster than argsort.
    order = rng.integers(0, 1 << 32, starts.shape, np.uint32) & ~low
    order |= np.arange(width, dtype=np.uint32)
    order[~starts] = 0xFFFFFFFF  # behind the groups
    order.sort(axis=1)
    return order, low


def _sizes(starts, free):
    """int32 [n, S]: where a group starts (bool [n, S]) its size. It ends before the next one or what is not free.

    starts   0 1 0 1 0 0        free   0 1 1 1 0 0        sizes   1 2 . 1 1 1
    """
    edges = np.flatnonzero(starts | ~free)
    sizes = np.zeros(starts.shape, np.int32)
    sizes.ravel()[edges] = np.diff(edges, append=starts.size)
    return sizes


def _spans(words, first, rng):
    """bool [n, S]: where spans start, given where words do and which of them stand at the beginning or after [SEP].

    words    0 1 1 0 1 1 1 0 1 1     the lengths 2 4 ... divide all words of all rows;
    spans    0 1 0 0 1 0 0 0 1 0     a row's first span is thus the rest of one, of a random length
    """
    at = np.flatnonzero(words)
    begin = np.cumsum(rng.choice(_SPANS, len(at), p=_CHANCES))
    spans = first.copy()
    spans.ravel()[at[begin[begin < len(at)]]] = True
    return spans


def _choose(starts, sizes, words, left, rows, rng):
    """Takes groups of some rows in a random order; one that does not fit is cut to the whole words which do, if any.

    Args:
        starts, sizes: bool and int [n, S], where groups start and how many positions they have.
        words: bool [n, S], where a group may be cut.
        left: int64 [n], how many positions may be taken in each row; lowered by those that are.
        rows: int64 [k], which rows to look at.

    Returns:
        int64 [taken], the starts in the flat rows, and the lengths, some of them 0.
    """
    width = starts.shape[1]
    order, low = _random_order(starts[rows], rng)
    counts = np.count_nonzero(starts[rows], axis=1)
    cut_at = np.maximum.accumulate(np.where(words.ravel(), np.arange(words.size), 0))
    at, groups = np.arange(len(rows)), [np.zeros((2, 0), np.int64)]
    for rank in range(counts.max(initial=0)):
        at = at[(left[rows[at]] > 0) & (counts[at] > rank)]
        if not len(at):
            break
        start = rows[at] * width + (order[at, rank] & low)
        room, length = left[rows[at]], sizes.ravel()[start].astype(np.int64)
        over = np.flatnonzero(length > room)
        length[over] = cut_at[start[over] + room[over]] - start[over]
        left[rows[at]] -= length
        groups.append((start, length))
    return np.concatenate(groups, axis=1)
