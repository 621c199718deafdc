"""Phrases to mask as units: read from a list, and found in rows of tokens."""

import dataclasses
import os

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.utils.files import brief, read_lines

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
                f"without tabs; got {brief(phrase[:60])}, which {_describe_fault(phrase)}; use a plain list."
            )
        if phrase:
            phrases[phrase] = None
    if not phrases:
        raise ValueError(
            f"The `phrase_file` {path} contains no phrases. Write one per line, or choose a `masking` without phrases."
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
            tokenizer: a `BaseTokenizer`.
            special: bool [vocab_size], true for special tokens, including [UNK].

        Raises:
            ValueError: the file is not a list of phrases, or all phrases have tokens outside the vocabulary.
        """
        texts = read_phrases(path)
        inside = [tokenizer.joining_space + text for text in texts]  # as they stand inside a text
        parts = [tokenizer.tokenize(inside[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
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
