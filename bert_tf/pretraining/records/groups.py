"""Chooses the positions of a row to mask: single tokens, whole words, spans, n-grams or phrases."""

import dataclasses
import os

import numpy as np

from bert_tf.data import features
from bert_tf.pretraining.records.phrases import Phrases
from bert_tf.utils.names import CLS, MASK, PAD, SEP, SPECIAL_TOKENS

# === Vocabulary ===
# The ids of a vocabulary that examples and masks depend on, as plain arrays.


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """The special ids and word boundaries of a vocabulary, and its phrases.

    Attributes:
        cls_id, sep_id, pad_id, mask_id: ids; mask_id is None where the vocabulary has no [MASK].
        special: bool [vocab_size], true for [PAD], [UNK], [CLS], [SEP] and [MASK].
        continuation: bool [vocab_size], true for a token that goes on with the word of the token before it ("##ing").
        names: the tokens in the order of their ids.
        phrases: what is masked as one; None: there is no list.
    """

    cls_id: int
    sep_id: int
    pad_id: int
    mask_id: int | None
    special: np.ndarray
    continuation: np.ndarray
    names: list
    phrases: Phrases | None = None

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    @classmethod
    def of_tokenizer(cls, tokenizer, phrase_file: str | os.PathLike | None = None) -> "MaskingVocabulary":
        """Returns the masking vocabulary of a tokenizer, with the phrases of a list.

        Args:
            tokenizer: a `bert_tf.tokenization.wordpiece.Tokenizer`.
            phrase_file: a text file with a phrase a line.

        Raises:
            ValueError: it is no BERT vocabulary, or no list of phrases in tokens of this vocabulary.
        """
        vocabulary = cls.of(tokenizer.vocab)
        if phrase_file is None:
            return vocabulary
        return dataclasses.replace(vocabulary, phrases=Phrases.read(phrase_file, tokenizer, vocabulary.special))

    @classmethod
    def of(cls, names: list[str]) -> "MaskingVocabulary":
        """Returns the masking vocabulary of BERT tokens in the order of their ids.

        Raises:
            ValueError: it is no BERT vocabulary.
        """
        ids = {name: i for i, name in enumerate(names)}
        lacking = [name for name in (CLS, SEP, PAD) if name not in ids]
        if lacking:
            raise ValueError(
                f"Examples for pretraining must be made and masked with a WordPiece vocabulary, with {lacking[0]}. "
                f"Received one of {len(names)} pieces without it; make records of other vocabularies elsewhere, masked."
            )
        return cls(
            ids[CLS],
            ids[SEP],
            ids[PAD],
            ids.get(MASK),
            np.isin(names, SPECIAL_TOKENS),
            np.array([name.startswith("##") for name in names]),
            names,
        )


# === Groups ===
# Groups of tokens are taken in a random order up to the row's budget. A group is a run of positions side by side: a
# token, a word, a phrase, or several words in a row.


# Chances of groups of 1, 2, ... words. SpanBERT (arXiv 1907.10529, section 3.1): geometric with p = 0.2, at most 10,
# 3.8 in the mean. ALBERT (arXiv 1909.11942, section 4.1): in proportion to 1/n, at most 3, 1.6 in the mean.
_WEIGHTS = {"span": 0.8 ** np.arange(1, 11), "ngram": 1 / np.arange(1, 4)}
_CHANCES = {kind: weights / np.sum(weights) for kind, weights in _WEIGHTS.items()}


def choose_groups(input_ids, masking, vocabulary, rng, counts=None):
    """Returns the groups of positions to mask in every row.

    Groups are taken in a random order, each with the same chance, and skipped where they no longer fit into the row's
    budget of min(M, max(1, round(prob x its tokens))), as in google-research/bert, create_masked_lm_predictions. So a
    row gets its budget of tokens, or less where no word that is left fits. Where all words of a row are longer than its
    budget, one of the shortest is taken nevertheless, if M has room for it: else the row would teach nothing.

    A word is a token and the "##" tokens after it, but never goes on over a special token. Special tokens are not
    chosen, [UNK] neither.

    Spans differ from SpanBERT's, which are drawn one by one anywhere and may run into each other: here the row is
    divided into spans, whose lengths in words have SpanBERT's distribution, and some of these are chosen. Two of them
    may be neighbours; none goes over a special token. One that does not fit is cut after the words that do (so the
    first word of a text is chosen a little more often than others), and single words fill what may still be left.

    N-grams are spans of one to three words, of n words with a chance in proportion to 1/n (ALBERT, arXiv 1909.11942,
    section 4.1).

    Phrases are those of `vocabulary.phrases`, wherever they stand as whole words; where they overlap, the longest comes
    first. A phrase is chosen or skipped as a word is, and so are the words outside of phrases (ERNIE, arXiv 1904.09223,
    section 3.2, where phrases and entities come one after the other).

    Args:
        input_ids: int [n, S], padded with [PAD].
        masking: a `Masking`; with the kind "phrase", `vocabulary` must have phrases.
        vocabulary: of the records.
        rng: a np.random.Generator.
        counts: as of `masking.mask`.

    Returns:
        int64 [k] twice: starts in the flat rows, and lengths, some of them 0.
    """
    free = ~vocabulary.special[input_ids]
    if masking.kind == "token":
        return _choose_tokens(free, _budgets(input_ids, masking, vocabulary, np.ones(1, np.int64)), rng)
    after = np.zeros_like(free)  # whether the position before is free too
    after[:, 1:] = free[:, :-1]
    words = free & ~(vocabulary.continuation[input_ids] & after)
    phrases = None
    if masking.kind == "phrase":
        words, phrases = vocabulary.phrases.join(input_ids, words, free)
    sizes = _sizes(words, free)
    shortest = np.where(words, sizes, words.shape[1]).min(axis=1, initial=words.shape[1])
    left = _budgets(input_ids, masking, vocabulary, shortest)
    if masking.kind in _CHANCES:
        return _choose_spans(words, words & ~after, sizes, free, left, _CHANCES[masking.kind], rng)
    starts, lengths = _choose(words, sizes, words, left, np.arange(len(words)), rng)
    if phrases is not None and counts is not None:
        is_phrase = np.zeros(words.size, bool)
        is_phrase[phrases] = True
        counts.update(found=len(phrases), masked=int(np.sum(is_phrase[starts[lengths > 0]])))
    return starts, lengths


def _choose_spans(words, first, sizes, free, left, chances, rng):
    """Chooses words several at a time; single ones fill what may be left."""
    spans = _spans(words, first, chances, rng)
    starts, lengths = _choose(spans, _sizes(spans, free), words, left, np.arange(len(words)), rng)
    words.ravel()[features.ranges(starts, lengths)] = False  # what may still be chosen
    more = _choose(words, sizes, words, left, np.flatnonzero(left), rng)
    return np.concatenate([starts, more[0]]), np.concatenate([lengths, more[1]])


def _budgets(input_ids, masking, vocabulary, shortest):
    """int64 [n]: how many positions to choose in each row, given the size of its shortest word, int [n] or [1]."""
    share = np.rint(masking.prob * np.count_nonzero(input_ids != vocabulary.pad_id, axis=1))  # as Python's round
    return np.minimum(masking.max_predictions, np.maximum(shortest, share.astype(np.int64)))


def _choose_tokens(free, budgets, rng):
    """Chooses single positions: the first ones in a random order."""
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


def _spans(words, first, chances, rng):
    """bool [n, S]: where spans start, given where words do and which of them stand at the beginning or after [SEP].

    words    0 1 1 0 1 1 1 0 1 1     the lengths 2 4 ... divide all words of all rows;
    spans    0 1 0 0 1 0 0 0 1 0     a row's first span is thus the rest of one, of a random length
    """
    at = np.flatnonzero(words)
    begin = np.cumsum(_draw_lengths(chances, len(at), rng))
    spans = first.copy()
    spans.ravel()[at[begin[begin < len(at)]]] = True
    return spans


def _draw_lengths(chances, number, rng):
    """int64 [number]: 1, 2, ... with these chances; what rng.choice gives, at a fifth of its time."""
    draw, lengths, bounds = rng.random(number), np.ones(number, np.int64), np.cumsum(chances)
    for bound in bounds[:-1] / bounds[-1]:
        lengths += draw >= bound
    return lengths


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
