"""Equal sentences, of which one is kept: found by their hashes, whichever part of the corpus they come from."""

from typing import NamedTuple

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.tokenize import mixed


class Places(NamedTuple):
    """Where n sentences stand.

    Attributes:
        part: uint64 [n], the key of the part of a document.
        sentence: int64 [n], the number of the sentence in this part.
    """

    part: np.ndarray
    sentence: np.ndarray

    def take(self, rows) -> "Places":
        """Returns these places (int or bool, as numpy indexes)."""
        return Places(self.part[rows], self.sentence[rows])


def concatenate(several) -> Places:
    """Returns the places of several `Places` (one at least) as one."""
    return Places(*(np.concatenate(fields) for fields in zip(*several, strict=True)))


def places(documents: Documents) -> Places:
    """Returns where each sentence of the documents stands."""
    lengths = documents.sentences.lengths
    first = np.repeat(documents.sentences.splits[:-1], lengths)
    return Places(np.repeat(documents.keys, lengths), np.arange(len(first)) - first)


def hashes(documents: Documents) -> np.ndarray:
    """Returns uint64 [all sentences]: equal where all pieces are, and else but for a rare chance different."""
    starts = documents.sentence_starts
    lengths = np.diff(starts)
    place = np.arange(len(documents.tokens.flat)) - np.repeat(starts[:-1], lengths)
    terms = mixed(documents.tokens.flat.astype(np.uint64) << np.uint64(32) | place.astype(np.uint64))
    return mixed(np.add.reduceat(terms, starts[:-1])) if len(lengths) else terms


def find(sentence_hashes: np.ndarray, where: Places) -> Places:
    """Returns the places of all sentences but one of each hash.

    The one that stays is in the part with the lowest key: a random one, which does not depend on who looks.

    Args:
        sentence_hashes: uint64 [n], all there are of the hashes among them.
        where: of n sentences.
    """
    order = np.lexsort((where.sentence, where.part, sentence_hashes))
    ordered = sentence_hashes[order]
    return where.take(order[1:][ordered[1:] == ordered[:-1]])


def drop(documents: Documents, dropped: Places) -> Documents:
    """Returns the documents without the sentences in some places, and without the parts of which nothing is left.

    Args:
        documents: sorted by key.
        dropped: places in these documents.
    """
    sentences = documents.sentences
    mask = np.ones(len(sentences.flat), bool)
    mask[sentences.splits[np.searchsorted(documents.keys, dropped.part)] + dropped.sentence] = False
    tokens = Ragged.of_lengths(documents.tokens.flat, sentences.flat).take(np.flatnonzero(mask))
    counts = np.diff(ragged.splits_of(mask)[sentences.splits])
    left = np.flatnonzero(counts)
    lengths = Ragged.of_lengths(sentences.flat[mask], counts[left])
    return Documents(
        documents.keys[left], documents.ids[left], Ragged(tokens.flat, tokens.splits[lengths.splits]), lengths
    )
