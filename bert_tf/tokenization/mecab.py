"""BertJapaneseTokenizer of Transformers with MeCab, equal to it id for id. MeCab runs in this process, not in the
graph: functions call it, but no SavedModel can."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.flat_ops import ragged
from bert_tf.tokenization.mecab_tables import MecabTables
from bert_tf.tokenization.mecab_words import MecabWords
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.tokenization.words import WordBatch

_TYPES = (tf.int32, tf.int64, tf.int64, tf.int64, tf.int64)


class MecabTokenizer(MecabTables, WordPieceTokenizer):
    """Converts Japanese text to token ids.

    Args:
        vocab, template, added_tokens: as in `WordPieceTokenizer`.
        do_lower_case: whether to lowercase text.
        dictionary: MeCab's, "ipadic", "unidic_lite" or "unidic".
        subwords: "wordpiece", or "character" for a vocabulary of characters.
        max_input_chars_per_word: a longer word is one [UNK].

    Raises:
        ValueError: as `WordPieceTokenizer`; fugashi or the dictionary is not installed; there are added tokens.
    """

    _normalized = None

    def _make_splitter(self):
        return MecabSplitter(MecabWords(self.dictionary, self.do_lower_case, self.subwords == "character"))


class MecabSplitter:
    """Splits texts into the words of MeCab.

    Args:
        words: finds them in one text.
    """

    def __init__(self, words: MecabWords):
        self._words = words

    def __call__(self, texts: tf.Tensor) -> WordBatch:
        """Splits texts (string [n], UTF-8; invalid bytes are dropped) into words."""
        found = tf.numpy_function(self._split, [texts], _TYPES, stateful=False)
        for values in found:
            values.set_shape([None])
        chars, word_splits, splits, starts, ends = found
        return WordBatch(ragged(chars, word_splits), splits, tf.zeros_like(splits), starts, ends)

    def _split(self, texts: Sequence[bytes]):
        """Returns code points of all words, where words begin among them, where texts begin among the words, and the
        span of each character in its text."""
        rows = [self._words(text.decode("utf-8", "ignore")) for text in texts]
        words = list(itertools.chain.from_iterable(rows))
        chars = np.array([ord(char) for word in words for char in word.text], np.int32)
        starts, ends = (_concatenated(column) for column in ([word.starts for word in words], [w.ends for w in words]))
        return chars, _splits(map(len, (word.text for word in words))), _splits(map(len, rows)), starts, ends


def _splits(lengths: Iterable[int]):
    return np.array([0, *itertools.accumulate(lengths)], np.int64)


def _concatenated(lists):
    return np.array(list(itertools.chain.from_iterable(lists)), np.int64)
