"""Tokenized documents of pretraining text as arrays."""

import dataclasses
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bert_tf.data import features
from bert_tf.data.features import Ragged
from bert_tf.utils.documents import split_by_characters

# === Arrays ===
# Tokenized documents as arrays: what every later stage of pretraining data reads.


@dataclasses.dataclass(frozen=True)
class Documents:
    """Parts of documents: their sentences as WordPiece ids, end to end. A long document comes in several parts.

        keys              81..      02..        two parts, placed by chance
        ids               17        17          of the same document
        sentences         3    4    2           lengths: two sentences in the first part, one in the second
        tokens            a a a b b b b c c

    Attributes:
        keys: uint64 [parts], random numbers: their order is the shuffled order of the parts.
        ids: int64 [parts], names the document that the part is of.
        tokens: Ragged int32, the tokens of each part.
        sentences: Ragged int32, the lengths of the sentences of each part, in tokens; none is 0.
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
        return features.splits_of(self.sentences.flat)

    def take(self, parts) -> "Documents":
        """Returns these parts (int [k]), in this order."""
        return Documents(self.keys[parts], self.ids[parts], self.tokens.take(parts), self.sentences.take(parts))


def concatenate_documents(several) -> Documents:
    """Returns the parts of several `Documents` (one at least) as one."""
    return Documents(
        np.concatenate([d.keys for d in several]),
        np.concatenate([d.ids for d in several]),
        features.concatenate_features([d.tokens for d in several]),
        features.concatenate_features([d.sentences for d in several]),
    )


# === Tokenize ===
# Documents of sentences to `Documents` of ids, each part with the random number that places it.


# A document of more tokens comes in several parts: lest one book fill a whole range of the shuffled order, and so that
# a book's examples are spread over it.
LONGEST_PART = 1 << 16
_LINE_BITS = 40  # of a document's id, for the line it begins at; the rest is for the file


def tokenize_documents(texts, tokenizer, seed: int, longest_part: int = LONGEST_PART) -> Documents:
    """Tokenizes documents of sentences to `Documents` of ids, sorted by random keys.

    Args:
        texts: list of `bert_tf.utils.documents.Document`.
        tokenizer: a `bert_tf.tokenization.wordpiece.Tokenizer`.
        seed: of the random keys; a part's key depends on this and on its place in the corpus alone.
        longest_part: a part ends with the sentence that brings it to so many tokens.

    Returns:
        Documents sorted by key; sentences without a token, and documents without a sentence, are left out.
    """
    encoded = _encode([s for text in texts for s in text.sentences], tokenizer)
    text_of = np.repeat(np.arange(len(texts)), [len(text.sentences) for text in texts])
    real = np.flatnonzero(encoded.lengths)
    text_of, lengths = text_of[real], encoded.lengths[real].astype(np.int32)
    part_of = _number_parts(text_of, lengths, longest_part)  # numbers the parts within their text
    first = np.flatnonzero(np.diff(text_of, prepend=-1) | np.diff(part_of, prepend=-1))  # each part's first sentence
    sentences = Ragged.of_lengths(lengths, np.diff(first, append=len(lengths)))
    tokens = Ragged(encoded.flat, features.splits_of(lengths)[sentences.splits])
    text, part = text_of[first], part_of[first]
    file, line, own = (np.array([getattr(t, name) for t in texts], np.int64) for name in ("file", "line", "first_line"))
    keys = random_keys(seed, file[text], own[text], part)
    documents = Documents(keys, (file << _LINE_BITS | line)[text], tokens, sentences)
    return documents.take(np.argsort(keys, kind="stable"))


def random_keys(seed: int, *numbers) -> np.ndarray:
    """Returns uint64 [n], random numbers that are a function of the seed and of `numbers` (int64 [n] each)."""
    keys = np.array(seed, np.uint64)
    for values in numbers:
        keys = mix_bits(keys ^ np.asarray(values).astype(np.uint64))
    return keys


def mix_bits(x):
    """Returns uint64 like x, every bit of which depends on every bit of x (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):  # it counts modulo 2^64
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return x ^ x >> np.uint64(31)


def _encode(sentences, tokenizer):
    """Ragged int32, the ids of each sentence.

    What stands between two spaces is tokenized by itself, so it is enough to tokenize once what occurs many times:

        the cat the dog     distinct  the cat dog     positions  0 1 0 2
    """
    words = pc.split_pattern(pa.array(sentences, pa.large_string()), " ")
    encoded = words.flatten().dictionary_encode()
    parts = [tokenizer.tokenize(batch) for batch in split_by_characters(encoded.dictionary.to_pylist())]
    distinct = features.concatenate_features([Ragged(ids.flat_values.numpy(), ids.row_splits.numpy()) for ids in parts])
    tokens = distinct.take(encoded.indices.to_numpy())
    return Ragged(tokens.flat, tokens.splits[words.offsets.to_numpy()])


def _number_parts(text_of, lengths, longest):
    """int64 [sentences]: the number of the part of its text that each sentence belongs to."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    first = np.searchsorted(text_of, text_of)  # the first sentence of the same text
    return (before - before[first]) // longest
