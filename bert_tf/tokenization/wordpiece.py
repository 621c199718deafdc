"""Google's BERT tokenizer in graph ops: equal, id for id, to FullTokenizer of google-research/bert, tokenization.py."""

import os
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.flat_ops import ragged, rows_of, take, upper_bound, utf8_lengths
from bert_tf.tokenization.vocabulary import Vocabulary
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from bert_tf.tokenization.words import WordBatch, WordSplitter
from bert_tf.utils.names import UNKNOWN
from bert_tf.utils.old_names import find_renamed

_MOST_BYTES = 4  # of a character in UTF-8


class WordPieceTokenizer(WordPieceTables, BaseTokenizer):
    """WordPiece tokenizer: converts text to token ids, in the graph.

        tokenizer = WordPieceTokenizer.from_directory("demo/weights/minilm")
        tokenizer.tokenize(["Unaffable!"])              # [[14477, 20961, 3468, 999]]     un ##aff ##able !
        tokenizer(["Is it?"], ["It is."], 16)           # input_ids, input_mask, segment_ids: int32 [1, 16]

    Unicode properties are those of the `unicodedata` of the Python that created the object; a SavedModel keeps them.
    Special tokens written in a text are ordinary text: "[CLS]" is "[", "cls", "]". In offsets, [UNK] spans its whole
    word.

    Attributes:
        strip_accents: whether text is decomposed and stripped of accents.
        max_input_chars_per_word: a longer word is one [UNK].
        cls_id, sep_id: ids of the first and of the last special token of a sequence, [CLS] and [SEP], or None.
    """

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str] | Vocabulary,
        do_lower_case: bool = True,
        template: InputTemplate | None = None,
        strip_accents: bool | None = None,
        max_input_chars_per_word: int | None = None,
        added_tokens: Sequence[AddedToken] = (),
        tokenizer_class: str = "BertTokenizer",
    ) -> None:
        """Reads the vocabulary and builds the operations.

        Args:
            vocab: path of a file with one token per line, or of a tokenizer.json, from which the vocabulary and the
                longest word are read; or the tokens, or a `Vocabulary`.
            do_lower_case: whether to lowercase text; false for cased models.
            template: the special tokens around the texts. If None, BERT's.
            strip_accents: whether to strip accents. If None, same as do_lower_case. Some models of other languages only
                lowercase.
            max_input_chars_per_word: longest word. If None, that of tokenizer.json, or google-research/bert's 200.
            added_tokens: tokens matched in the text before it is split; after the vocabulary, or in it with the same
                ids.
            tokenizer_class: Transformers' class that reads the files.

        Raises:
            ValueError: the file is missing or not such a vocabulary (the padding token, [UNK] or a token of the
                template is missing), accents are to be stripped from text that is not lowercased, or an added token
                does not match the vocabulary.
        """
        super().__init__(
            vocab, do_lower_case, template, strip_accents, max_input_chars_per_word, tokenizer_class=tokenizer_class
        )
        self._splitter = self._make_splitter()
        with tf.init_scope(), tf.device("CPU:0"):
            self._subwords = tf_text.FastWordpieceTokenizer(
                vocab=self._vocabulary.matchable(),
                unknown_token=UNKNOWN,
                max_bytes_per_word=_MOST_BYTES * self.max_input_chars_per_word,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )
        self._take_added_tokens(added_tokens)

    def _make_splitter(self) -> Callable[[tf.Tensor], WordBatch]:
        """Returns what splits texts, strings [n], into words."""
        return WordSplitter(self.do_lower_case, self.strip_accents)

    def _ids_and_offsets(self, texts):
        words, ids, starts, ends = self._tokens_of_words(texts)
        splits = take(ids.row_splits, words.splits)
        return tuple(ragged(values, splits) for values in (ids.flat_values, starts, ends))

    def _by_words(self, texts):
        words, ids, starts, ends = self._tokens_of_words(texts)
        return tuple(ragged(ids.with_values(values), words.splits) for values in (ids.values, starts, ends))

    def _normalized(self, texts):
        return self._splitter.normalized(texts)

    def _tokens_of_words(self, texts):
        """Returns the words, ids [words, (tokens)], and the start and end of each token, int32 [tokens] each."""
        words = self._splitter(texts)
        strings = tf.strings.unicode_encode(words.chars, "UTF-8")
        too_long = tf.strings.length(strings, "UTF8_CHAR") > self.max_input_chars_per_word
        ids, starts, ends = self._subwords.tokenize_with_offsets(tf.where(too_long, " ", strings))
        return words, ids, *_to_characters(words, ids, starts.flat_values, ends.flat_values, self.unk_id)


def _to_characters(words: WordBatch, ids, starts, ends, unk_id):
    """Converts byte offsets in normalized words into code points of the original text: int32 [tokens] twice."""
    chars, word = words.chars.flat_values, rows_of(ids.row_splits, ids.flat_values)
    byte_of_char = tf.cumsum(tf.cast(utf8_lengths(chars), tf.int64), exclusive=True)
    word_first = take(words.chars.row_splits, word)
    base = take(byte_of_char, word_first)
    first = upper_bound(byte_of_char, base + starts) - 1
    # An unknown word is one token, as is the blank that stands for a word that is too long.
    last = upper_bound(byte_of_char, base + ends - 1) - 1
    last = tf.where(ids.flat_values == unk_id, take(words.chars.row_splits, word + 1) - 1, last)
    origin = take(words.text_starts, upper_bound(words.splits, word) - 1)
    return tuple(tf.cast(each - origin, tf.int32) for each in (take(words.starts, first), take(words.ends, last)))


def __getattr__(name):
    return find_renamed(__name__, {"Tokenizer": "WordPieceTokenizer"}, name)
