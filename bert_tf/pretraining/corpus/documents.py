"""Tokenized documents of pretraining text as arrays: the input of every later stage."""

import dataclasses
from functools import cached_property

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged

CONTINUES = 1 << 30  # the bit of a token's number that says that a word segmenter has it in the word of the last one


@dataclasses.dataclass(frozen=True)
class Documents:
    """Parts of documents: their concatenated sentences as token ids. A long document has several parts.

        keys              81..      02..        two parts, randomly placed
        ids               17        17          of the same document
        sentences         3    4    2           lengths: two sentences in the first part, one in the second
        tokens            a a a b b b b c c

    Attributes:
        keys: uint64 [parts], random numbers: their order is the shuffled order of the parts.
        ids: int64 [parts], identifies the document of each part.
        tokens: Ragged int32, the ids of each part's tokens; with a word segmenter, some have the bit `CONTINUES`.
        sentences: Ragged int32, the sentence lengths of each part, in tokens, all positive.
    """

    keys: np.ndarray
    ids: np.ndarray
    tokens: Ragged
    sentences: Ragged

    def __len__(self):
        return len(self.keys)

    @cached_property
    def sentence_starts(self):
        """int64 [all sentences + 1], offsets of the sentences in tokens.flat, followed by the end of the tokens."""
        return ragged.splits_of(self.sentences.flat)

    def take(self, parts) -> "Documents":
        """Returns these parts (int [k]), in this order."""
        return Documents(self.keys[parts], self.ids[parts], self.tokens.take(parts), self.sentences.take(parts))


def concatenate_documents(several) -> Documents:
    """Concatenates one or more `Documents`."""
    return Documents(
        np.concatenate([d.keys for d in several]),
        np.concatenate([d.ids for d in several]),
        ragged.concatenate_features([d.tokens for d in several]),
        ragged.concatenate_features([d.sentences for d in several]),
    )
