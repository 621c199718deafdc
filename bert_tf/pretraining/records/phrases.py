"""Phrases and names that are masked as one: read off a list, found in rows of tokens."""

import dataclasses
import os

import numpy as np

from bert_tf.data import features
from bert_tf.data.features import Ragged
from bert_tf.utils.files import brief, read_lines

_LONGEST = 256  # characters of a phrase
_AT_ONCE = 1 << 14  # phrases tokenized together
_SLOTS = 8  # of a level's table for each edge, at least
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio


def read_phrases(path: str | os.PathLike) -> list[str]:
    """Returns the phrases of a file: one a line, without blanks around it; empty lines and repeats do not count.

    Raises:
        ValueError: the file cannot be read, holds something else, or no phrase.
    """
    path, phrases = os.fspath(path), {}
    for number, line in enumerate(read_lines(path), 1):
        phrase = line.strip()
        if len(phrase) > _LONGEST or "\t" in phrase or "\0" in phrase:
            raise ValueError(
                f"{path}:{number} must be one phrase, of at most {_LONGEST} characters and without tabs, as each line "
                f"of a `phrase_file` is. Received {brief(phrase[:60])}, which {_describe_fault(phrase)}; give a plain "
                "list."
            )
        if phrase:
            phrases[phrase] = None
    if not phrases:
        raise ValueError(
            f"{path} must hold one phrase at least. Received a `phrase_file` without any; write one a line, or choose "
            "another masking."
        )
    return list(phrases)


def _describe_fault(phrase):
    if "\0" in phrase:
        return "has a NUL byte"
    return "has a tab" if "\t" in phrase else f"has {len(phrase):,} characters"


@dataclasses.dataclass(frozen=True)
class Phrases:
    """Phrases as tokens, in a tree whose nodes are the beginnings that they have in common.

        new york | new york city | york        level 1: new, york     level 2: new york     level 3: new york city

    A node of level 1 has its token's id for a number; the nodes of each further level are numbered from 0.

    Attributes:
        number: of phrases that can be found, without repeats.
        unknown: how many more hold a token that the vocabulary lacks.
        ends: of each level, bool [nodes]: whether a phrase ends there.
        levels: all but the first: for each node the number of the one above x V + its own token.
    """

    number: int
    unknown: int
    ends: list
    levels: list

    @classmethod
    def read(cls, path: str | os.PathLike, tokenizer, special) -> "Phrases":
        """Returns the phrases of a file, as tokens of a vocabulary.

        Args:
            path: of the list; see `read_phrases`.
            tokenizer: with the method `tokenize`.
            special: bool [vocab_size], true for the tokens that stand for no text, [UNK] among them.

        Raises:
            ValueError: it is no list of phrases, or all of them hold tokens that the vocabulary lacks.
        """
        texts = read_phrases(path)
        parts = [tokenizer.tokenize(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        ids = features.concatenate_features(
            [Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in parts]
        )
        known = [row for row in ids.rows() if len(row) and not special[row].any()]
        if not known:
            raise ValueError(
                f"{os.fspath(path)} must hold a phrase whose pieces the vocabulary has. Received a `phrase_file` with "
                f"none among {len(texts):,}, such as {brief(texts[0])}; take a list in the language of the vocabulary."
            )
        return cls.of(known, len(special), len(texts) - len(known))

    @classmethod
    def of(cls, phrases: list, vocab_size: int, unknown: int = 0) -> "Phrases":
        """Returns the tree of phrases, each a list of one id or more below `vocab_size`."""
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
        """Returns where words start once each phrase is one word; where phrases overlap, the longest comes first.

        Args:
            input_ids: int [n, S].
            words: bool [n, S], where words start.
            free: bool [n, S], false for special tokens.

        Returns:
            bool [n, S], where words start now; int64 [k], where in the flat rows the phrases do.
        """
        words, inside = words.copy(), np.zeros(words.size, bool)
        found = [np.zeros(0, np.int64)]
        for length, at in reversed(list(enumerate(self._found(input_ids, words, free), 1))):
            # What is inside already belongs to phrases that are no shorter: those reach over one of the two ends.
            at = at[~(inside[at] | inside[at + length - 1])]
            while len(at):
                first = at[np.diff(at, prepend=-length) >= length]  # the others may overlap with one of these
                inside[features.ranges(first, np.full(len(first), length))] = True
                found.append(first)
                at = at[~inside[at]]
        starts = np.concatenate(found)
        goes_on = inside.copy()
        goes_on[starts] = False
        words.ravel()[goes_on] = False
        return words, starts

    def _found(self, input_ids, words, free):
        """Returns for each number of tokens, from 1, where in the flat rows phrases of so many begin, ascending."""
        width, vocab_size, ids = words.shape[1], len(self.ends[0]), input_ids.ravel().astype(np.int64)
        word_ends = np.ones(words.shape, bool)
        word_ends[:, :-1] = words[:, 1:] | ~free[:, 1:]
        word_ends, words = word_ends.ravel(), words.ravel()
        found = [np.flatnonzero(words & word_ends & self.ends[0][ids])]
        if not self.levels:
            return found
        code = ids[:-1] * vocab_size + ids[1:]  # of all positions at once: faster than to look which of them can begin
        node = self.levels[0].guess(code)
        at = np.flatnonzero(words[:-1] & (node >= 0))
        code, node = code[at], node[at]
        for depth, level in enumerate(self.levels, 1):
            node = level.settle(node, code)
            at, node = at[node >= 0], node[node >= 0]
            inside = at % width < width - depth  # else it goes on into the next row
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
    """Finds numbers among many, at a fifth of the time of a search: most others are told apart by a look at a table.

    Args:
        edges: int64 [nodes], ascending, 0 or more.
    """

    def __init__(self, edges):
        self._edges = edges
        self._shift = np.uint64(64 - (_SLOTS * len(edges)).bit_length())
        slots = self._slots(edges)
        self._table = np.full(1 << (64 - int(self._shift)), -1)  # slot -> the position of an edge that belongs there
        self._table[slots] = np.arange(len(edges))
        self._shared = np.bincount(slots, minlength=len(self._table)) > 1

    def guess(self, codes):
        """Returns int64 [n], for each number (int64 [n]) a position that `settle` looks at; -1 where it is no edge."""
        return self._table[self._slots(codes)]

    def settle(self, places, codes):
        """Returns int64 [n], the position of each number among the edges or -1, given what `guess` gave, but not -1."""
        other = np.flatnonzero(self._edges[places] != codes)
        places[other] = -1
        other = other[self._shared[self._slots(codes[other])]]
        found = np.minimum(np.searchsorted(self._edges, codes[other]), len(self._edges) - 1)
        places[other] = np.where(self._edges[found] == codes[other], found, -1)
        return places

    def _slots(self, codes):
        """Returns a slot for each number, spread over all of them: the upper bits of a product."""
        return (codes.view(np.uint64) * _SPREAD >> self._shift).view(np.int64)
