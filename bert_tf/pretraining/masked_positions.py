"""The positions of a row to mask: single tokens, whole words, spans, n-grams, or phrases from a list.

Groups of tokens are taken in random order up to the row's budget. A group is a range of adjacent positions: a token,
a word, a phrase, or several consecutive words.
"""

import numpy as np

from bert_tf.data import ragged

# Probabilities of 1, 2, ... words. SpanBERT (arXiv 1907.10529, section 3.1): geometric with p = 0.2, at most 10,
# mean 3.8. ALBERT (arXiv 1909.11942, section 4.1): proportional to 1/n, at most 3, mean 1.6.
_WEIGHTS = {"span": 0.8 ** np.arange(1, 11), "ngram": 1 / np.arange(1, 4)}
_CHANCES = {kind: weights / np.sum(weights) for kind, weights in _WEIGHTS.items()}


def choose_positions(input_ids, masking, vocabulary, rng, counts=None, continues=None):
    """Selects the groups of positions to mask in each row.

    Groups are taken in random order with equal probability, and skipped if they no longer fit into the row's budget of
    min(M, max(1, round(prob x its tokens))), as in google-research/bert's create_masked_lm_predictions. A row thus gets
    its budget of tokens, or less if no remaining word fits. If all words of a row are longer than its budget, one of
    the shortest is still taken, if M has room for it, so that the row contributes to the loss.

    A word is a token and those after it that continue it, such as "##" tokens (`MaskingVocabulary.continues`), but it
    never extends past a special token. Special tokens, including [UNK], are not selected.

    Spans differ from those of SpanBERT, which are drawn one by one at any position and may overlap: this function
    divides the row into spans, whose lengths in words have SpanBERT's distribution, and some of these are selected. Two
    of them may be adjacent; none contains a special token. A span that does not fit is truncated to the words that do
    (so the first word of a text is selected slightly more often than others), and single words fill the rest of the
    budget.

    N-grams are spans of one to three words, with a probability proportional to 1/n (ALBERT, arXiv 1909.11942,
    section 4.1).

    Phrases are those of `vocabulary.phrases`, wherever they occur as whole words; if they overlap, the longest takes
    precedence. A phrase is selected or skipped like a word, and so are the words outside of phrases (ERNIE, arXiv
    1904.09223, section 3.2, where phrases and entities are masked in separate stages).

    Args:
        input_ids: int [n, S], padded with [PAD].
        masking: a `Masking`; with the kind "phrase", `vocabulary` must have phrases.
        vocabulary: the vocabulary of the records.
        rng: a np.random.Generator.
        counts, continues: as in `masking.mask`.

    Returns:
        The starts of the groups in the flat rows, and their lengths, some of them 0: int64 [k] each.
    """
    free = ~vocabulary.special[input_ids]
    if masking.kind == "token":
        return _choose_tokens(free, _budgets(input_ids, masking, vocabulary, np.ones(1, np.int64)), rng)
    after = np.zeros_like(free)  # whether the previous position is free too
    after[:, 1:] = free[:, :-1]
    joined = vocabulary.continues(input_ids)
    words = free & ~(joined if continues is None else joined | (continues & after))
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
    """Selects several words at a time; single ones fill the rest of the budget."""
    spans = _spans(words, first, chances, rng)
    starts, lengths = _choose(spans, _sizes(spans, free), words, left, np.arange(len(words)), rng)
    words.ravel()[ragged.ranges(starts, lengths)] = False  # words that may still be selected
    more = _choose(words, sizes, words, left, np.flatnonzero(left), rng)
    return np.concatenate([starts, more[0]]), np.concatenate([lengths, more[1]])


def _budgets(input_ids, masking, vocabulary, shortest):
    """Returns the number of positions to select per row, int64 [n]; `shortest` is the size of its shortest word."""
    share = np.rint(masking.prob * np.count_nonzero(input_ids != vocabulary.pad_id, axis=1))  # like Python's round
    return np.minimum(masking.max_predictions, np.maximum(shortest, share.astype(np.int64)))


def _choose_tokens(free, budgets, rng):
    """Selects single positions: the first ones in random order."""
    order, low = _random_order(free, rng)
    chosen = np.arange(free.shape[1]) < np.minimum(budgets, np.count_nonzero(free, axis=1))[:, None]
    column = (order & low)[chosen]
    row = np.repeat(np.arange(len(free)), np.count_nonzero(chosen, axis=1))
    return row * free.shape[1] + column, np.ones(len(row), np.int64)


def _random_order(starts, rng):
    """Returns the columns of the groups in random order, then others, uint32 [n, S], and their bit mask."""
    width = starts.shape[1]
    low = np.uint32((1 << (width - 1).bit_length()) - 1)
    # Sorts random numbers with their columns in the lowest bits, which is much faster than argsort.
    order = rng.integers(0, 1 << 32, starts.shape, np.uint32) & ~low
    order |= np.arange(width, dtype=np.uint32)
    order[~starts] = 0xFFFFFFFF  # after the groups
    order.sort(axis=1)
    return order, low


def _sizes(starts, free):
    """Returns the sizes of groups at their starts, int32 [n, S]; each ends before the next one or a position not free.

    starts   0 1 0 1 0 0        free   0 1 1 1 0 0        sizes   1 2 . 1 1 1
    """
    edges = np.flatnonzero(starts | ~free)
    sizes = np.zeros(starts.shape, np.int32)
    sizes.ravel()[edges] = np.diff(edges, append=starts.size)
    return sizes


def _spans(words, first, chances, rng):
    """Returns where spans start, bool [n, S], given the starts of words and which are first or follow [SEP].

    words    0 1 1 0 1 1 1 0 1 1     the lengths 2 4 ... divide all words of all rows;
    spans    0 1 0 0 1 0 0 0 1 0     a row's first span is thus the rest of one, with a random length
    """
    at = np.flatnonzero(words)
    begin = np.cumsum(_draw_lengths(chances, len(at), rng))
    spans = first.copy()
    spans.ravel()[at[begin[begin < len(at)]]] = True
    return spans


def _draw_lengths(chances, number, rng):
    """Samples 1, 2, ... with these probabilities, int64 [number]; like rng.choice, but five times faster."""
    draw, lengths, bounds = rng.random(number), np.ones(number, np.int64), np.cumsum(chances)
    for bound in bounds[:-1] / bounds[-1]:
        lengths += draw >= bound
    return lengths


def _choose(starts, sizes, words, left, rows, rng):
    """Selects groups of some rows in random order; truncates those that do not fit to the words that do.

    Args:
        starts, sizes: bool and int [n, S], the starts of groups and their sizes.
        words: bool [n, S], where a group may be truncated.
        left: int64 [n], remaining budget of each row; reduced by the selected positions.
        rows: int64 [k], the rows to process.

    Returns:
        The starts in the flat rows, and the lengths, some of them 0: int64 [taken] each.
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
