"""Phrases and names that are masked as one: read off a list, found in rows of pieces."""

import dataclasses
import os

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.files import brief, read_lines

_LONGEST = 256  # characters of a phrase
_AT_ONCE = 1 << 14  # phrases tokenized together


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
                f"of a `phrase_file` is. Received {brief(phrase[:60])}, which {_fault(phrase)}; give a plain list."
            )
        if phrase:
            phrases[phrase] = None
    if not phrases:
        raise ValueError(
            f"{path} must hold one phrase at least. Received a `phrase_file` without any; write one a line, or choose "
            "another masking."
        )
    return list(phrases)


def _fault(phrase):
    if "\0" in phrase:
        return "has a NUL byte"
    return "has a tab" if "\t" in phrase else f"has {len(phrase):,} characters"


@dataclasses.dataclass(frozen=True)
class Phrases:
    """Phrases as pieces, in a tree whose nodes are the beginnings that they have in common.

        new york | new york city | york        level 1: new, york     level 2: new york     level 3: new york city

    Attributes:
        number: of phrases that can be found, without repeats.
        unknown: how many more hold a piece that the vocabulary lacks.
        first: int64 [vocab_size], the node of level 1 for each piece, -1 where no phrase begins with it.
        edges: of each further level, int64, ascending: a number for the node above and the piece, node by node.
        ends: of each level, bool [nodes]: whether a phrase ends there.
    """

    number: int
    unknown: int
    first: np.ndarray
    edges: list
    ends: list

    @classmethod
    def read(cls, path: str | os.PathLike, tokenizer, special) -> "Phrases":
        """Reads a list of phrases, for a vocabulary.

        Args:
            path: of the list; see `read_phrases`.
            tokenizer: with the method `tokenize`.
            special: bool [vocab_size], true for the pieces that stand for no text, [UNK] among them.

        Raises:
            ValueError: it is no list of phrases, or all of them hold pieces that the vocabulary lacks.
        """
        texts = read_phrases(path)
        parts = [tokenizer.tokenize(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        ids = ragged.concatenate([Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in parts])
        known = [row for row in ids.rows() if len(row) and not special[row].any()]
        if not known:
            raise ValueError(
                f"{os.fspath(path)} must hold a phrase whose pieces the vocabulary has. Received a `phrase_file` of "
                f"{len(texts):,}, such as {brief(texts[0])}, with none; are list and vocabulary of one language and case?"
            )
        return cls.of(known, len(special), len(texts) - len(known))

    @classmethod
    def of(cls, phrases: list, vocab_size: int, unknown: int = 0) -> "Phrases":
        """Makes the tree of phrases, each a list of one id or more below `vocab_size`."""
        lengths = np.array([len(phrase) for phrase in phrases])
        table = np.zeros((len(phrases), lengths.max()), np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate(phrases)
        first, edges, ends = np.full(vocab_size, -1), [], []
        node = np.zeros(len(phrases), np.int64)
        for depth in range(table.shape[1]):
            longer = lengths > depth
            table, lengths, node = table[longer], lengths[longer], node[longer]
            codes, node = np.unique(node * vocab_size + table[:, depth], return_inverse=True)
            ends.append(np.bincount(node[lengths == depth + 1], minlength=len(codes)) > 0)
            if depth:
                edges.append(codes)
            else:
                first[codes] = np.arange(len(codes))
        return cls(sum(map(np.count_nonzero, ends)), unknown, first, edges, ends)

    def join(self, input_ids, words, free):
        """Makes one word of the words of each phrase; where phrases overlap, the longest in pieces comes first.

        Args:
            input_ids: int [n, S].
            words: bool [n, S], where words start.
            free: bool [n, S], false for special pieces.

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
                inside[ragged.ranges(first, np.full(len(first), length))] = True
                found.append(first)
                at = at[~inside[at]]
        starts = np.concatenate(found)
        goes_on = inside.copy()
        goes_on[starts] = False
        words.ravel()[goes_on] = False
        return words, starts

    def _found(self, input_ids, words, free):
        """Returns for each number of pieces, from 1, where in the flat rows phrases of so many begin, ascending."""
        width, ids = input_ids.shape[1], input_ids.ravel()
        word_ends = np.ones(words.shape, bool)
        word_ends[:, :-1] = words[:, 1:] | ~free[:, 1:]
        word_ends = word_ends.ravel()
        at = np.flatnonzero(words)
        node = self.first[ids[at]]
        found = []
        for depth, ends in enumerate(self.ends):
            at, node = at[node >= 0], node[node >= 0]
            found.append(at[ends[node] & word_ends[at + depth]])
            if depth < len(self.edges):
                inside = at % width < width - depth - 1
                at, node = at[inside], node[inside]
                code = node * len(self.first) + ids[at + depth + 1]
                edges = self.edges[depth]
                node = np.minimum(np.searchsorted(edges, code), len(edges) - 1)
                node[edges[node] != code] = -1
        return found
