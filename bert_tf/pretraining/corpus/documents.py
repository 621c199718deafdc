"""Tokenized documents as arrays: what every later stage of pretraining data reads."""

import dataclasses
from functools import cached_property

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged


@dataclasses.dataclass(frozen=True)
class Documents:
    """Parts of documents: their sentences as ids of word pieces, end to end. A long document comes in several parts.

        keys              81..      02..        two parts, placed by chance
        ids               17        17          of the same document
        sentences         3    4    2           lengths: two sentences in the first part, one in the second
        tokens            a a a b b b b c c

    Attributes:
        keys: uint64 [parts], random numbers: their order is the shuffled order of the parts.
        ids: int64 [parts], names the document that the part is of.
        tokens: Ragged int32, the pieces of each part.
        sentences: Ragged int32, the lengths of the sentences of each part, in pieces; none is 0.
    """

    keys: np.ndarray
    ids: np.ndarray
    tokens: Ragged
    sentences: Ragged

    def __len__(self):
        return len(self.keys)

    @cached_property
    def sentence_starts(self):
        """int64 [all sentences + 1], where in tokens.flat each sentence begins, and at last where the tokens end."""
        return ragged.splits_of(self.sentences.flat)

    def take(self, parts) -> "Documents":
        """Returns these parts (int [k]), in this order."""
        return Documents(self.keys[parts], self.ids[parts], self.tokens.take(parts), self.sentences.take(parts))


def concatenate(several) -> Documents:
    """Returns the parts of several `Documents` (one at least) as one."""
    return Documents(
        np.concatenate([d.keys for d in several]),
        np.concatenate([d.ids for d in several]),
        ragged.concatenate([d.tokens for d in several]),
        ragged.concatenate([d.sentences for d in several]),
    )
