"""The tokens to predict, and their replacements in the input; `masked_positions` selects the positions."""

import dataclasses
from collections import Counter

import numpy as np

from bert_tf.data import ragged
from bert_tf.pretraining.masked_positions import choose_positions
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.settings import MaskingSettings
from bert_tf.utils.names import MASKINGS

_ROUNDING = 1e-9  # 0.7 + 0.3 may slightly exceed 1
_MASK, _RANDOM, _UNCHANGED = 1, 2, 3  # the replacement at a selected position; 0 is one that is not selected


@dataclasses.dataclass(frozen=True)
class Masking:
    """Options of masking: how tokens are selected, and what replaces them.

    Attributes:
        kind: the unit of selection: "token", "whole_word" (all tokens of a word), "span" (several consecutive words),
            "ngram" (up to three consecutive words), or "phrase" (all words of a phrase from a list).
        prob: fraction of an example's tokens to select, [CLS] and [SEP] counted.
        max_predictions: maximum number of selected tokens per row, M below.
        mask_token_prob: fraction of the selected tokens replaced with [MASK].
        random_token_prob: fraction replaced with a random token; the rest is unchanged.
    """

    kind: str = MaskingSettings.masking
    prob: float = MaskingSettings.masked_lm_prob
    max_predictions: int = MaskingSettings.max_predictions_per_seq
    mask_token_prob: float = MaskingSettings.mask_token_prob
    random_token_prob: float = MaskingSettings.random_token_prob

    def __post_init__(self):
        if self.kind not in MASKINGS:
            raise ValueError(f"The masking must be one of {', '.join(MASKINGS)}; got {self.kind!r}.")
        if self.max_predictions < 1:
            raise ValueError(f"max_predictions must be 1 or more; got {self.max_predictions}.")
        if not 0 <= self.prob <= 1:
            raise ValueError(f"The fraction of masked tokens, prob, must be from 0 to 1; got {self.prob}.")
        shares = self.mask_token_prob, self.random_token_prob
        if min(shares) < 0 or sum(shares) > 1 + _ROUNDING:
            raise ValueError(
                "`mask_token_prob` and `random_token_prob` must not be negative, and their sum must be at most 1; got "
                f"{shares[0]} and {shares[1]}; the remainder is the fraction of tokens that stay visible."
            )


def mask(
    input_ids, masking: Masking, vocabulary: MaskingVocabulary, rng, counts: Counter | None = None, continues=None
) -> dict:
    """Masks rows, and returns them with the original tokens (BERT, arXiv 1810.04805, section 3.1, "Masked LM").

        input_ids            [CLS]   my   dog   is  hairy [SEP] [PAD]       two selected, M = 3
        input_ids, masked    [CLS]   my [MASK]  is  hairy [SEP] [PAD]       dog is hidden, hairy is kept
        masked_lm_positions     2     4     0
        masked_lm_ids         dog  hairy    0
        masked_lm_weights       1     1     0

    `choose_positions` decides which tokens are selected together, and how many. The replacement is drawn for each
    token, but once for all tokens of a span, as in SpanBERT.

    A random token is uniformly sampled from all but the special ones (google-research/bert draws from the whole
    vocabulary).

    Args:
        input_ids: int [n, S], padded with [PAD]; not modified.
        masking: the masking options.
        vocabulary: the vocabulary of the records.
        rng: a np.random.Generator.
        counts: with the kind "phrase", adds the numbers of phrases "found" and "masked".
        continues: bool [n, S], true for a token that continues the word of the previous token, in addition to those
            that do according to the vocabulary, or None.

    Returns:
        "input_ids": int32 [n, S], masked; "masked_lm_positions" (ascending), "masked_lm_ids": int32 [n, M] and
        "masked_lm_weights": float32 [n, M], which is 1.0 for a prediction; all three are 0 for padding.

    Raises:
        ValueError: the vocabulary has no mask token, or no phrases although the kind is "phrase".
    """
    if vocabulary.mask_id is None:
        raise ValueError(
            "Masking requires a vocabulary with a mask token such as [MASK], but it is missing from the "
            f"{len(vocabulary.special)} tokens. Add a line [MASK] to the vocabulary file, or use the vocabulary of a "
            "model with a mask token."
        )
    if masking.kind == "phrase":
        check_phrases(masking.kind, vocabulary.phrases)
    input_ids = np.ascontiguousarray(input_ids)
    starts, lengths = choose_positions(input_ids, masking, vocabulary, rng, counts, continues)
    replacement = _draw_replacements(starts, lengths, masking, input_ids.size, rng)
    place = np.flatnonzero(replacement)
    original, replacement = input_ids.ravel()[place].astype(np.int32), replacement[place]
    masked = input_ids.astype(np.int32)  # a copy
    masked.ravel()[place] = np.where(replacement == _MASK, np.int32(vocabulary.mask_id), original)
    swapped = place[replacement == _RANDOM]
    masked.ravel()[swapped] = rng.choice(np.flatnonzero(~vocabulary.special), len(swapped))
    return {"input_ids": masked, **_predictions(place, original, input_ids.shape, masking.max_predictions)}


def check_phrases(masking: str, phrases):
    """Raises ValueError if phrases (a file or its contents) are missing or not used.

    Args:
        masking: the kind of masking.
        phrases: the phrases, or None.
    """
    if (masking == "phrase") != (phrases is not None):
        received, remedy = "a list", "remove the `phrase_file`, or set `masking=phrase`"
        if phrases is None:
            received, remedy = "no list", "add a `phrase_file`, or choose a `masking` that needs no phrases"
        raise ValueError(
            f"`phrase_file` and `masking=phrase` require each other; got {received} and `masking={masking}`; {remedy}."
        )


def _predictions(place, original, shape, width):
    """Returns the features of predictions, given ascending positions in the flat rows and original ids, int [k]."""
    row, column = np.divmod(place, shape[1])
    to = row, np.arange(len(row)) - np.searchsorted(row, np.arange(shape[0]))[row]
    positions, ids, weights = (np.zeros((shape[0], width), dtype) for dtype in (np.int32, np.int32, np.float32))
    positions[to], ids[to], weights[to] = column, original, 1.0
    return {"masked_lm_positions": positions, "masked_lm_ids": ids, "masked_lm_weights": weights}


def _draw_replacements(starts, lengths, masking, size, rng):
    """Returns the replacement at each position of the flat rows, uint8 [size], given the selected groups."""
    place = ragged.ranges(starts, lengths)
    draw = np.repeat(rng.random(len(starts)), lengths) if masking.kind == "span" else rng.random(len(place))
    is_random = draw < masking.mask_token_prob + masking.random_token_prob
    swapped = np.where(is_random, np.uint8(_RANDOM), np.uint8(_UNCHANGED))
    replacement = np.zeros(size, np.uint8)
    replacement[place] = np.where(draw < masking.mask_token_prob, np.uint8(_MASK), swapped)
    return replacement
