"""Tokenizes documents to `Documents`, and gives each part a random sort key."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.pretraining.corpus.documents import CONTINUES, Documents
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.utils.string_batches import split_by_characters

# A document of more tokens is split into several parts, so that one book does not fill a whole range of the shuffled
# order, and its examples are spread over it.
LONGEST_PART = 1 << 16
_LINE_BITS = 40  # of a document's id, for its first line; the rest is for the file


def tokenize_documents(
    texts, tokenizer: BaseTokenizer, seed: int, longest_part: int = LONGEST_PART, segmenter=None
) -> Documents:
    """Tokenizes documents, and returns them as `Documents` sorted by random keys.

    The tokens of a document are those of its sentences, joined by spaces.

    Args:
        texts: a list of `bert_tf.utils.documents.Document`.
        tokenizer: the model's tokenizer.
        seed: random seed of the keys; a part's key depends only on the seed and its place in the corpus.
        longest_part: a part ends with the sentence that brings it to this many tokens.
        segmenter: a `WordSegmenter` that determines which tokens are masked together, or None.

    Returns:
        The documents sorted by key, without empty sentences and empty documents.
    """
    sentences = [s for text in texts for s in _joined(text, tokenizer.joining_space)]
    if segmenter is not None:
        encoded = _encode_segmented(sentences, tokenizer, segmenter)
    else:
        encoded = (_encode_words if tokenizer.splits_at_spaces else _tokenize)(sentences, tokenizer)
    text_of = np.repeat(np.arange(len(texts)), [len(text.sentences) for text in texts])
    real = np.flatnonzero(encoded.lengths)
    text_of, lengths = text_of[real], encoded.lengths[real].astype(np.int32)
    part_of = _number_parts(text_of, lengths, longest_part)  # index of the part within its text
    first = np.flatnonzero(np.diff(text_of, prepend=-1) | np.diff(part_of, prepend=-1))  # each part's first sentence
    sentences = Ragged.of_lengths(lengths, np.diff(first, append=len(lengths)))
    tokens = Ragged(encoded.flat, ragged.splits_of(lengths)[sentences.splits])
    text, part = text_of[first], part_of[first]
    file, line, own = (np.array([getattr(t, name) for t in texts], np.int64) for name in ("file", "line", "first_line"))
    keys = random_keys(seed, file[text], own[text], part)
    documents = Documents(keys, (file << _LINE_BITS | line)[text], tokens, sentences)
    return documents.take(np.argsort(keys, kind="stable"))


def random_keys(seed: int, *numbers) -> np.ndarray:
    """Returns random numbers, uint64 [n], as a function of the seed and `numbers` (int64 [n] each)."""
    keys = np.array(seed, np.uint64)
    for values in numbers:
        keys = mix_bits(keys ^ np.asarray(values).astype(np.uint64))
    return keys


def mix_bits(x):
    """Mixes the bits of uint64 numbers, so that every bit depends on every bit of x (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return x ^ x >> np.uint64(31)


def count_tokens(documents: Documents, unk_id: int) -> Counter:
    """Returns the number of "tokens", and of those that are "unknown"."""
    flat = documents.tokens.flat
    return Counter(tokens=len(flat), unknown=int(np.count_nonzero(flat & ~CONTINUES == unk_id)))


def _joined(document, space):
    """Returns the sentences of a document with a space before each but the first."""
    if not space:
        return document.sentences
    first, *others = document.sentences
    begins = document.line == document.first_line  # or this is a later portion of it
    return [first if begins else space + first, *(space + sentence for sentence in others)]


def _encode_words(sentences, tokenizer):
    """Returns the ids of each sentence, as Ragged int32, if words between spaces are tokenized independently.

    Each distinct word is tokenized only once:

        the cat the dog     distinct  the cat dog     positions  0 1 0 2
    """
    words = pc.split_pattern(pa.array(sentences, pa.large_string()), " ")
    encoded = words.flatten().dictionary_encode()
    distinct = _tokenize(encoded.dictionary.to_pylist(), tokenizer)
    tokens = distinct.take(encoded.indices.to_numpy())
    return Ragged(tokens.flat, tokens.splits[words.offsets.to_numpy()])


def _tokenize(texts, tokenizer):
    """Returns the ids of each text, as Ragged int32."""
    parts = [tokenizer.tokenize(batch) for batch in split_by_characters(texts)]
    return ragged.concatenate_features([Ragged(ids.flat_values.numpy(), ids.row_splits.numpy()) for ids in parts])


def _encode_segmented(sentences, tokenizer, segmenter):
    """Returns the ids of each sentence, as Ragged int32, with the bit `CONTINUES` inside the segmenter's words.

        sentence        使 用 语 言 模 型          tokens     使 用 语 言 模 型
        words           0  0  1  1  2  2          continues  no yes no yes no yes
    """
    parts = []
    for batch in split_by_characters(sentences):
        ids, starts, ends = tokenizer.tokenize_with_offsets(batch)
        rows, begins, stops = ids.value_rowids().numpy(), starts.flat_values.numpy(), ends.flat_values.numpy()
        numbers = [segmenter(sentence) for sentence in batch]
        flat, base = np.concatenate([*numbers, [-1]]), ragged.splits_of(np.array([len(each) for each in numbers]))
        first, last = flat[base[rows] + begins], flat[base[rows] + np.maximum(stops - 1, 0)]
        joined = np.zeros(len(rows), bool)
        joined[1:] = (first[1:] == last[:-1]) & (first[1:] >= 0) & (rows[1:] == rows[:-1]) & (stops > begins)[1:]
        values = ids.flat_values.numpy()
        parts.append(Ragged(np.where(joined, values | CONTINUES, values), ids.row_splits.numpy()))
    return ragged.concatenate_features(parts)


def _number_parts(text_of, lengths, longest):
    """Returns each sentence's part number within its text, int64 [sentences]."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    first = np.searchsorted(text_of, text_of)  # the first sentence of the same text
    return (before - before[first]) // longest
