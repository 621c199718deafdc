"""Google's BERT tokenizer in graph ops: equal, id for id, to FullTokenizer of google-research/bert, tokenization.py."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.families import Family, Template
from bert_tf.tokenization import characters, hugging_face, precedence, tokenizer_json
from bert_tf.tokenization import vocabulary as vocabularies
from bert_tf.tokenization.added_tokens import AddedToken, settings_of, write_file
from bert_tf.tokenization.base import BaseTokenizer
from bert_tf.tokenization.settings import with_special_tokens
from bert_tf.tokenization.vocabulary import Vocabulary, check_case
from bert_tf.tokenization.words import Words, WordSplitter
from bert_tf.utils.names import CLS, MASK, PAD, SEP, UNKNOWN

__all__ = ["Tokenizer", "check_case"]

_MOST_BYTES = 4  # of a character in UTF-8


class Tokenizer(BaseTokenizer):
    """Text to the ids of word pieces.

        tokenizer = Tokenizer.from_directory("uncased_L-12_H-768_A-12")
        tokenizer.tokenize(["Unaffable!"])              # [[14477, 20961, 3468, 999]]     un ##aff ##able !
        tokenizer(["Is it?"], ["It is."], 16)           # input_ids, input_mask, segment_ids: int32 [1, 16]

    Unicode's properties are those of the `unicodedata` of the Python in which the object was made; a SavedModel keeps
    them. Special tokens written in the text stay text: "[CLS]" is "[", "cls", "]". In offsets, [UNK] extends over its
    whole word.

    Attributes:
        strip_accents: whether text is decomposed and loses its accents.
        max_input_chars_per_word: a longer word is one [UNK].
        cls_id, sep_id: ids of [CLS] and [SEP].
    """

    KIND: ClassVar = "wordpiece"
    FILES: ClassVar = (vocabularies.VOCAB_FILE,)
    SPACES: ClassVar = r"[ \t\n\r\p{Zs}]{32,}"
    _APART: ClassVar = characters.CJK

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str] | Vocabulary,
        do_lower_case: bool = True,
        template: Template | None = None,
        strip_accents: bool | None = None,
        max_input_chars_per_word: int | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Reads the vocabulary.

        Args:
            vocab: path of a file with one piece a line, or of a tokenizer.json, of which its vocabulary and longest
                word are taken; or the pieces, also as a `Vocabulary`.
            do_lower_case: False for cased models.
            template: None: BERT's.
            strip_accents: None: as do_lower_case. Some models of other languages only lowercase.
            max_input_chars_per_word: None: what tokenizer.json says, else google-research/bert's 200.
            added_tokens: what is found in a text before it is split; behind the vocabulary, or in it with the same ids.

        Raises:
            ValueError: no file, no BERT vocabulary (one of [PAD], [UNK], [CLS], [SEP] is missing), one without a piece
                of the template, accents are to go from text that is not lowercased, or an added token does not go with
                the vocabulary.
        """
        vocabulary = vocab if isinstance(vocab, Vocabulary) else Vocabulary.read(vocab)
        if max_input_chars_per_word is not None:
            vocabulary = dataclasses.replace(vocabulary, longest_word=int(max_input_chars_per_word))
        path = vocab if isinstance(vocab, (str, os.PathLike)) else None
        self.max_input_chars_per_word = vocabulary.longest_word
        super().__init__(vocabulary, path, template, (PAD, UNKNOWN, MASK))
        self.do_lower_case = bool(do_lower_case)
        self.strip_accents = self.do_lower_case if strip_accents is None else bool(strip_accents)
        self.cls_id, self.sep_id = vocabulary.id_of(CLS), vocabulary.id_of(SEP)
        self._splitter = WordSplitter(self.do_lower_case, self.strip_accents)
        with tf.init_scope(), tf.device("CPU:0"):
            self._pieces = tf_text.FastWordpieceTokenizer(
                vocab=self._vocabulary.matchable(),
                unknown_token=UNKNOWN,
                max_bytes_per_word=_MOST_BYTES * self.max_input_chars_per_word,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )
        self._take_added_tokens(added_tokens)

    @classmethod
    def from_directory(
        cls,
        path,
        do_lower_case: bool | None = None,
        vocab_file=None,
        template: Template | None = None,
        family: Family | None = None,
    ) -> "Tokenizer":
        """Makes the tokenizer of a checkpoint's directory.

        Args:
            path: directory with `tokenizer.json` or `vocab.txt`, and perhaps `tokenizer_config.json`.
            do_lower_case: None: what the files say, see `precedence`, else True.
            vocab_file: another vocabulary than the directory's.
            template: None: the family's.
            family: None: that of the directory's configuration, BERT where there is none.

        Raises:
            ValueError: no vocabulary; a letter case that contradicts the directory's file or name; a setting in
                `tokenizer_config.json` or `tokenizer.json` that Google's algorithm does not have.
        """
        directory, family = precedence.settings_directory(path, vocab_file), family or cls.family_of(path)
        config = vocabularies.read_config(directory)
        template = with_special_tokens(directory, config, cls.KIND, family, template)
        if file := tokenizer_json.find(directory, vocab_file):
            return cls._of_whole(tokenizer_json.read_whole(file, cls.KIND), directory, do_lower_case, template)
        lower, strip_accents = vocabularies.resolve_case_and_accents(directory, do_lower_case)
        tokenizer = cls(vocab_file or cls.file_in(directory), lower, template, strip_accents)
        if do_lower_case is None and "do_lower_case" not in config:
            vocabularies.warn_of_capitals(tokenizer.vocab, tokenizer.vocab_file)
        tokenizer._take_added_tokens_of(os.path.dirname(vocab_file) if vocab_file else directory)
        return tokenizer

    @classmethod
    def _of_whole(cls, whole, directory, do_lower_case, template):
        """Makes the tokenizer of a tokenizer.json."""
        whole.check_template(template, precedence.counts_alone(vocabularies.read_config(directory)))
        lower, strip_accents = precedence.case_and_accents(whole, directory, do_lower_case)
        vocabulary = Vocabulary.of_whole(whole, template)
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            beside = Vocabulary.read(path)
            lines = [piece if beside.id_of(piece) == i else "" for i, piece in enumerate(beside.pieces)]
            precedence.warn_of_vocabulary(whole.path, vocabulary.pieces[: whole.own], path, lines)
        tokenizer = cls(vocabulary, lower, template, strip_accents)
        tokenizer.vocab_file = whole.path
        tokenizer._take_added_tokens_of(os.path.dirname(whole.path))
        return tokenizer

    @property
    def special_tokens(self) -> dict[str, str]:
        """As for all tokenizers; but nothing begins or ends a text of BERT's."""
        return {name: piece for name, piece in super().special_tokens.items() if name not in ("bos_token", "eos_token")}

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "strip_accents", "max_input_chars_per_word")
        return self._with_added({name: getattr(self, name) for name in names})

    def save(self, directory: str | os.PathLike):
        """Writes `vocab.txt`, `tokenizer.json`, which says the same to Hugging Face's tokenizers,
        `tokenizer_config.json` and `added_tokens.json`."""
        directory = os.fspath(directory)
        os.makedirs(directory, exist_ok=True)
        self._vocabulary.save(os.path.join(directory, vocabularies.VOCAB_FILE))
        settings = vocabularies.case_settings(self.do_lower_case, self.strip_accents)
        settings |= settings_of(self.added_tokens)
        if self.template.pieces(2) != Template().pieces(2):
            settings |= {name: self.special_tokens[name] for name in ("cls_token", "sep_token")}
        hugging_face.write(directory, hugging_face.wordpiece(self))
        vocabularies.write_config(directory, "BertTokenizer", settings)
        write_file(directory, self.added_tokens)

    def _ids_and_offsets(self, texts):
        words, ids, starts, limits = self._pieces_of_words(texts)
        row_of_piece = tf.gather(words.rows, ids.value_rowids())
        rows = tf.RaggedTensor.from_value_rowids(
            ids.flat_values, row_of_piece, nrows=tf.size(texts, tf.int64), validate=False
        )
        return rows, rows.with_flat_values(starts), rows.with_flat_values(limits)

    def _by_words(self, texts):
        words, ids, starts, limits = self._pieces_of_words(texts)
        rows = tf.RaggedTensor.from_value_rowids(ids, words.rows, nrows=tf.size(texts, tf.int64), validate=False)
        return rows, rows.with_flat_values(starts), rows.with_flat_values(limits)

    def _normalized(self, texts):
        return self._splitter.normalized(texts)

    def _pieces_of_words(self, texts):
        """Returns the words, ids [words, (pieces)], and int32 [pieces] twice: where pieces begin and end."""
        words = self._splitter(texts)
        strings = tf.strings.unicode_encode(words.chars, "UTF-8")
        too_long = words.chars.row_lengths() > self.max_input_chars_per_word
        ids, starts, ends = self._pieces.tokenize_with_offsets(tf.where(too_long, " ", strings))
        return words, ids, *_to_characters(words, ids, starts.flat_values, ends.flat_values, self.unk_id)


def _to_characters(words: Words, ids, starts, ends, unk_id):
    """Turns bytes of normalised words into code points of the text as it came: int32 [pieces] twice."""
    chars, word = words.chars.flat_values, ids.value_rowids()
    lengths = 1 + sum(tf.cast(chars >= longer, tf.int64) for longer in (0x80, 0x800, 0x10000))  # in UTF-8
    byte_of_char = tf.cumsum(lengths, exclusive=True)
    word_first = tf.gather(words.chars.row_starts(), word)
    base = tf.gather(byte_of_char, word_first)

    def char_at(byte):
        return tf.searchsorted(byte_of_char, base + tf.cast(byte, tf.int64), "right", tf.int64) - 1

    whole = ids.flat_values == unk_id  # also of the blank that stands for a word which is too long
    first = tf.where(whole, word_first, char_at(starts))
    last = tf.where(whole, tf.gather(words.chars.row_limits(), word) - 1, char_at(ends - 1))
    origin = tf.gather(words.origins, word)
    return tf.gather(words.starts, first) - origin, tf.gather(words.limits, last) - origin
