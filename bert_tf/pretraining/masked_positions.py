"""Selects the positions of a row to mask: single tokens, whole words, spans, n-grams, or phrases from a list."""

import dataclasses
import os

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.utils.files import brief, read_lines
from bert_tf.utils.names import CLS, MASK, PAD, SEP, SPECIAL_TOKENS

# === Phrases ===
# Phrases to mask as units: read from a list, and found in rows of tokens.


_LONGEST = 256  # characters of a phrase
_AT_ONCE = 1 << 14  # phrases to tokenize together
_SLOTS = 8  # minimum slots per edge in a level's table
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio


def read_phrases(path: str | os.PathLike) -> list[str]:
    """Reads the phrases of a file: one per line, without surrounding spaces, empty lines and duplicates.

    Raises:
        ValueError: the file cannot be read, has other contents, or has no phrase.
    """
    path, phrases = os.fspath(path), {}
    for number, line in enumerate(read_lines(path), 1):
        phrase = line.strip()
        if len(phrase) > _LONGEST or "\t" in phrase or "\0" in phrase:
            raise ValueError(
                f"{path}:{number}: each line of a `phrase_file` must be one phrase of at most {_LONGEST} characters "
                f"without tabs. Received {brief(phrase[:60])}, which {_describe_fault(phrase)}; use a plain list."
            )
        if phrase:
            phrases[phrase] = None
    if not phrases:
        raise ValueError(
            f"The `phrase_file` {path} contains no phrases. Write one per line, or choose another masking."
        )
    return list(phrases)


def _describe_fault(phrase):
    if "\0" in phrase:
        return "has a NUL byte"
    return "has a tab" if "\t" in phrase else f"has {len(phrase):,} characters"


@dataclasses.dataclass(frozen=True)
class Phrases:
    """Phrases as sequences of tokens, in a prefix tree.

        new york | new york city | york        level 1: new, york     level 2: new york     level 3: new york city

    The number of a node of level 1 is its token's id; the nodes of each further level are numbered from 0.

    Attributes:
        number: number of distinct phrases that can be found.
        unknown: number of further phrases with a token outside the vocabulary.
        ends: for each level, whether a phrase ends at each node, bool [nodes].
        levels: for each level but the first, the number of each node's parent x V + its own token.
    """

    number: int
    unknown: int
    ends: list
    levels: list

    @classmethod
    def read(cls, path: str | os.PathLike, tokenizer, special) -> "Phrases":
        """Reads the phrases of a file as tokens of a vocabulary.

        Args:
            path: path of the list; see `read_phrases`.
            tokenizer: a tokenizer with the method `tokenize`.
            special: bool [vocab_size], true for special tokens, including [UNK].

        Raises:
            ValueError: the file is not a list of phrases, or all phrases have tokens outside the vocabulary.
        """
        texts = read_phrases(path)
        parts = [tokenizer.tokenize(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        ids = ragged.concatenate_features(
            [Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in parts]
        )
        known = [row for row in ids.rows() if len(row) and not special[row].any()]
        if not known:
            raise ValueError(
                f"None of the {len(texts):,} phrases of the `phrase_file` {os.fspath(path)} consists of tokens of the "
                f"vocabulary, such as {brief(texts[0])}. Use a list in the language of the vocabulary."
            )
        return cls.of(known, len(special), len(texts) - len(known))

    @classmethod
    def of(cls, phrases: list, vocab_size: int, unknown: int = 0) -> "Phrases":
        """Returns the tree of phrases, each a list of one or more ids below `vocab_size`."""
        lengths = np.array([len(phrase) for phrase in phrases])
        table = np.zeros((len(phrases), lengths.max()), np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate(phrases)
        node, ends, edges = table[:, 0], [], []
        for depth in range(1, table.shape[1] + 1):
            nodes = len(edges[-1]) if edges else vocab_size
            ends.append(np.bincount(node[lengths == depth], minlength=nodes) > 0)
            longer = lengths > depth
            table, lengths, node = table[longer], lengths[longer], node[longer]
            if len(table):
                codes, node = np.unique(node * vocab_size + table[:, depth], return_inverse=True)
                edges.append(codes)
        return cls(int(sum(map(np.sum, ends))), unknown, ends, list(map(_Level, edges)))

    def join(self, input_ids, words, free):
        """Finds phrases, and returns where words start if each phrase counts as one; the longest takes precedence.

        Args:
            input_ids: int [n, S].
            words: bool [n, S], where words start.
            free: bool [n, S], false for special tokens.

        Returns:
            bool [n, S], where words now start; int64 [k], the starts of the phrases in the flat rows.
        """
        words, inside = words.copy(), np.zeros(words.size, bool)
        found = [np.zeros(0, np.int64)]
        for length, at in reversed(list(enumerate(self._found(input_ids, words, free), 1))):
            # Positions inside belong to phrases that are at least as long: those extend past one of the ends.
            at = at[~(inside[at] | inside[at + length - 1])]
            while len(at):
                first = at[np.diff(at, prepend=-length) >= length]  # the others may overlap with one of these
                inside[ragged.ranges(first, np.full(len(first), length))] = True
                found.append(first)
                at = at[~inside[at]]
        starts = np.concatenate(found)
        goes_on = inside.copy()
        goes_on[starts] = False
        words.ravel()[goes_on] = False
        return words, starts

    def _found(self, input_ids, words, free):
        """Returns, for each number of tokens from 1, the ascending starts of such phrases in the flat rows."""
        width, vocab_size, ids = words.shape[1], len(self.ends[0]), input_ids.ravel().astype(np.int64)
        word_ends = np.ones(words.shape, bool)
        word_ends[:, :-1] = words[:, 1:] | ~free[:, 1:]
        word_ends, words = word_ends.ravel(), words.ravel()
        found = [np.flatnonzero(words & word_ends & self.ends[0][ids])]
        if not self.levels:
            return found
        code = ids[:-1] * vocab_size + ids[1:]  # for all positions: faster than selecting the possible starts
        node = self.levels[0].guess(code)
        at = np.flatnonzero(words[:-1] & (node >= 0))
        code, node = code[at], node[at]
        for depth, level in enumerate(self.levels, 1):
            node = level.settle(node, code)
            at, node = at[node >= 0], node[node >= 0]
            inside = at % width < width - depth  # otherwise it extends into the next row
            at, node = at[inside], node[inside]
            found.append(at[self.ends[depth][node] & word_ends[at + depth]])
            if depth < len(self.levels):
                inside = at < len(ids) - depth - 1
                at, node = at[inside], node[inside]
                code = node * vocab_size + ids[at + depth + 1]
                node = self.levels[depth].guess(code)
                at, code, node = at[node >= 0], code[node >= 0], node[node >= 0]
        return found


class _Level:
    """Finds numbers in a sorted array, five times faster than a binary search: a table lookup rules out most others.

    Args:
        edges: int64 [nodes], ascending, 0 or more.
    """

    def __init__(self, edges):
        self._edges = edges
        self._shift = np.uint64(64 - (_SLOTS * len(edges)).bit_length())
        slots = self._slots(edges)
        self._table = np.full(1 << (64 - int(self._shift)), -1)  # slot -> the position of one of its edges
        self._table[slots] = np.arange(len(edges))
        self._shared = np.bincount(slots, minlength=len(self._table)) > 1

    def guess(self, codes):
        """Returns a candidate position for each number (int64 [n]), int64 [n]; -1 if it is not an edge."""
        return self._table[self._slots(codes)]

    def settle(self, places, codes):
        """Returns the position of each number among the edges, or -1, given the non-negative results of `guess`."""
        other = np.flatnonzero(self._edges[places] != codes)
        places[other] = -1
        other = other[self._shared[self._slots(codes[other])]]
        found = np.minimum(np.searchsorted(self._edges, codes[other]), len(self._edges) - 1)
        places[other] = np.where(self._edges[found] == codes[other], found, -1)
        return places

    def _slots(self, codes):
        """Returns an evenly distributed slot for each number: the upper bits of a product."""
        return (codes.view(np.uint64) * _SPREAD >> self._shift).view(np.int64)


# === Vocabulary ===
# The special ids and word boundaries of a vocabulary, as plain arrays.


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """The special ids and word boundaries of a vocabulary, and its phrases.

    Attributes:
        cls_id, sep_id, pad_id, mask_id: ids; mask_id is None if the vocabulary has no [MASK].
        special: bool [vocab_size], true for [PAD], [UNK], [CLS], [SEP] and [MASK].
        continuation: bool [vocab_size], true for a token that continues the word of the previous token ("##ing").
        names: the tokens in the order of their ids.
        phrases: phrases to mask as units, or None if there is no list.
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
        """Returns the masking vocabulary of a tokenizer, with the phrases of a list, if given.

        Args:
            tokenizer: a `bert_tf.tokenization.wordpiece.Tokenizer`.
            phrase_file: a text file with one phrase per line.

        Raises:
            ValueError: the tokens are not a BERT vocabulary, or the phrases are not valid for it.
        """
        vocabulary = cls.of(tokenizer.vocab)
        if phrase_file is None:
            return vocabulary
        return dataclasses.replace(vocabulary, phrases=Phrases.read(phrase_file, tokenizer, vocabulary.special))

    @classmethod
    def of(cls, names: list[str]) -> "MaskingVocabulary":
        """Returns the masking vocabulary of BERT tokens in the order of their ids.

        Raises:
            ValueError: the tokens are not a BERT vocabulary.
        """
        ids = {name: i for i, name in enumerate(names)}
        lacking = [name for name in (CLS, SEP, PAD) if name not in ids]
        if lacking:
            raise ValueError(
                f"Pretraining examples require a WordPiece vocabulary with {lacking[0]}, but this one of {len(names)} "
                "tokens lacks it. Records for other vocabularies must be masked elsewhere."
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


# === Positions ===
# Groups of tokens are taken in random order up to the row's budget. A group is a range of adjacent positions: a token,
# a word, a phrase, or several consecutive words.


# Probabilities of 1, 2, ... words. SpanBERT (arXiv 1907.10529, section 3.1): geometric with p = 0.2, at most 10,
# mean 3.8. ALBERT (arXiv 1909.11942, section 4.1): proportional to 1/n, at most 3, mean 1.6.
_WEIGHTS = {"span": 0.8 ** np.arange(1, 11), "ngram": 1 / np.arange(1, 4)}
_CHANCES = {kind: weights / np.sum(weights) for kind, weights in _WEIGHTS.items()}


def choose_positions(input_ids, masking, vocabulary, rng, counts=None):
    """Selects the groups of positions to mask in each row.

    Groups are taken in random order with equal probability, and skipped if they no longer fit into the row's budget of
    min(M, max(1, round(prob x its tokens))), as in google-research/bert's create_masked_lm_predictions. A row thus gets
    its budget of tokens, or less if no remaining word fits. If all words of a row are longer than its budget, one of
    the shortest is still taken, if M has room for it, so that the row contributes to the loss.

    A word is a token and the "##" tokens after it, but it never extends past a special token. Special tokens, including
    [UNK], are not selected.

    Spans differ from those of SpanBERT, which are drawn one by one at any position and may overlap: here, the row is
    divided into spans, whose lengths in words have SpanBERT's distribution, and some of these are selected. Two of them
    may be adjacent; none contains a special token. A span that does not fit is truncated to the words that do (so the
    first word of a text is selected slightly more often than others), and single words fill the rest of the budget.

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
        counts: as in `masking.mask`.

    Returns:
        The starts of the groups in the flat rows, and their lengths, some of them 0: int64 [k] each.
    """
    free = ~vocabulary.special[input_ids]
    if masking.kind == "token":
        return _choose_tokens(free, _budgets(input_ids, masking, vocabulary, np.ones(1, np.int64)), rng)
    after = np.zeros_like(free)  # whether the previous position is free too
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
