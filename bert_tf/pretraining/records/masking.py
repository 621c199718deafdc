"""What the model has to guess of a row, and what it sees in its place. Which positions: `groups`."""

import dataclasses
from collections import Counter

import numpy as np

from bert_tf.data import ragged
from bert_tf.pretraining.records import groups
from bert_tf.pretraining.records.pieces import Pieces
from bert_tf.utils.names import MASKINGS

_ROUNDING = 1e-9  # 0.7 and 0.3 may be a little more than 1 together
_HIDDEN, _SWAPPED, _KEPT = 1, 2, 3  # what happens to a chosen position; 0 is one that was not chosen


@dataclasses.dataclass(frozen=True)
class Masking:
    """How to choose and to hide.

    Attributes:
        kind: what is chosen together: "token" a piece, "whole_word" all pieces of a word, "span" some words in a row,
            "ngram" up to three words in a row, "phrase" all words of a phrase from a list.
        prob: share of an example's pieces, [CLS] and [SEP] counted too, that is chosen.
        max_predictions: pieces chosen in a row at most: M below.
        mask_token_prob: share of the chosen pieces that becomes [MASK].
        random_token_prob: share that becomes a random piece; the rest stays as it is.
    """

    kind: str = "token"
    prob: float = 0.15
    max_predictions: int = 20
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1

    def __post_init__(self):
        if self.kind not in MASKINGS:
            raise ValueError(f"The kind of masking must be one of {', '.join(MASKINGS)}. Received {self.kind!r}.")
        if self.max_predictions < 1:
            raise ValueError(f"max_predictions must be 1 or more. Received {self.max_predictions}.")
        if not 0 <= self.prob <= 1:
            raise ValueError(f"The share of masked pieces, prob, must lie between 0 and 1. Received {self.prob}.")
        shares = self.mask_token_prob, self.random_token_prob
        if min(shares) < 0 or sum(shares) > 1 + _ROUNDING:
            raise ValueError(
                "`mask_token_prob` and `random_token_prob` must not be negative, nor be more than 1 together. "
                f"Received {shares[0]} and {shares[1]}; what they leave of 1 is the share of pieces that stay visible."
            )


def mask(input_ids, masking: Masking, pieces: Pieces, rng, counts: Counter | None = None) -> dict:
    """Chooses positions of each row and hides what stands there (BERT, arXiv 1810.04805, section 3.1, "Masked LM").

        input_ids            [CLS]   my   dog   is  hairy [SEP] [PAD]       two chosen, M = 3
        input_ids, masked    [CLS]   my [MASK]  is  hairy [SEP] [PAD]       dog is hidden, hairy is kept
        masked_lm_positions     2     4     0
        masked_lm_ids         dog  hairy    0
        masked_lm_weights       1     1     0

    Which pieces are chosen together, and how many, says `groups.choose`. Each has its own fate, hidden, random or kept;
    but a span has one draw for all of its pieces, as SpanBERT's.

    A random piece is any but a special one, with equal chances (google-research/bert draws from the whole vocabulary).

    Args:
        input_ids: int [n, S], padded with [PAD]; not changed.
        masking: how many of which.
        pieces: of the vocabulary.
        rng: a np.random.Generator.
        counts: gains, with the kind "phrase", how many phrases were "found" and how many of them "masked".

    Returns:
        "input_ids": int32 [n, S], masked; "masked_lm_positions" (ascending), "masked_lm_ids": int32 [n, M] and
        "masked_lm_weights": float32 [n, M], which is 1.0 for a prediction and 0.0, as the others, for padding.

    Raises:
        ValueError: the vocabulary has no [MASK], or phrases are to be masked and there are none.
    """
    if pieces.mask_id is None:
        raise ValueError(
            "Masking must have a vocabulary with the piece [MASK]. "
            f"Received one of {len(pieces.special)} pieces without it; add a line [MASK] to the vocabulary file."
        )
    if masking.kind == "phrase":
        check_phrases(masking.kind, pieces.phrases)
    input_ids = np.ascontiguousarray(input_ids)
    fate = _fates(*groups.choose(input_ids, masking, pieces, rng, counts), masking, input_ids.size, rng)
    place = np.flatnonzero(fate)
    original, fate = input_ids.ravel()[place].astype(np.int32), fate[place]
    masked = input_ids.astype(np.int32)  # a copy
    masked.ravel()[place] = np.where(fate == _HIDDEN, np.int32(pieces.mask_id), original)
    swapped = place[fate == _SWAPPED]
    masked.ravel()[swapped] = rng.choice(np.flatnonzero(~pieces.special), len(swapped))
    return {"input_ids": masked, **_predictions(place, original, input_ids.shape, masking.max_predictions)}


def check_phrases(masking: str, phrases):
    """Raises ValueError where phrases, a file or what was read of it, are lacking or not used.

    Args:
        masking: the kind.
        phrases: None: there are none.
    """
    if (masking == "phrase") != (phrases is not None):
        received, remedy = ("none", "give a") if phrases is None else ("some", "leave out the")
        raise ValueError(
            "`phrase_file` must come with `masking=phrase`, and that with a list of phrases. "
            f"Received {received}, and `masking={masking}`; {remedy} `phrase_file`, or choose another masking."
        )


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
    swapped = np.where(draw < masking.mask_token_prob + masking.random_token_prob, np.uint8(_SWAPPED), np.uint8(_KEPT))
    fate = np.zeros(size, np.uint8)
    fate[place] = np.where(draw < masking.mask_token_prob, np.uint8(_HIDDEN), swapped)
    return fate
