"""Google's BERT tokenizer in graph ops: equal, id for id, to FullTokenizer of google-research/bert, tokenization.py."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization import characters, file_precedence, tokenizer_json_writer
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.characters import utf8_lengths
from bert_tf.tokenization.tokenizer_config import case_settings, read_config, resolve_case_and_accents
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, warn_of_capitals
from bert_tf.utils.names import CLS, MASK, PAD, SEP, UNKNOWN

# === Words ===
# Text to words in the graph: google-research/bert's BasicTokenizer, with a map back to the text as it came.


_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2


class WordBatch(NamedTuple):
    """The words of a batch of n texts, one after the other.

    Attributes:
        chars: RaggedTensor int32 [words, (characters)], the code points of each word, lowercased and stripped.
        rows: int64 [words], the text that each word is of.
        origins: int32 [words], where this text begins in the row of all texts, in code points.
        starts: int32 [all characters], where in the row of all texts the origin of a character begins.
        limits: int32 [all characters], where it ends (not included), combining marks that were stripped included.
    """

    chars: tf.RaggedTensor
    rows: tf.Tensor
    origins: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor


class _Stream(NamedTuple):
    """The characters of all texts in one row, each text closed by a line feed; every field is int32 [characters]."""

    chars: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor
    flags: tf.Tensor

    def take(self, indices):
        return _Stream(*(tf.gather(field, indices) for field in self))


class WordSplitter(tf.Module):
    """Cleans, isolates CJK, splits at white space, lowercases, decomposes, strips marks, splits at punctuation.

    Every step but two looks at one character at a time, hence the tables. The two: a capital sigma at the end of a word
    becomes a final one, and canonical order sorts combining characters (the few which are not stripped) by their class.

        text     C  a  f  e  ◌́  中  !          one text as it came, ◌́ = U+0301
        chars    c  a  f  e     中  !          three words
        starts   0  1  2  3     5  6
        limits   1  2  3  5     6  7          the mark belongs to the e before it
    """

    def __init__(self, do_lower_case: bool, strip_accents: bool | None = None):
        super().__init__()
        self._do_lower_case = do_lower_case
        self._strip_accents = do_lower_case if strip_accents is None else strip_accents
        if self._strip_accents and not do_lower_case:
            raise ValueError("Accents must stay where text is not lowercased. Received: `strip_accents=True`; drop it.")
        only_lower = do_lower_case and not self._strip_accents
        table = characters.character_table(decompose=False) if only_lower else characters.character_table()
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages, self._flags_table = tf.constant(table.pages), tf.constant(table.flags)
            self._deltas = tf.constant(table.deltas) if do_lower_case else None

    def __call__(self, texts: tf.Tensor) -> WordBatch:
        """Splits texts (string [n], UTF-8; bytes that are none are dropped) into words."""
        return _words(*self._stream(texts))

    def normalized(self, texts: tf.Tensor) -> Normalized:
        """Returns texts before they are split; all white space is blanks."""
        stream, splits = self._stream(texts)
        chars = tf.where(stream.flags & characters.SPACE != 0, ord(" "), stream.chars)
        return Normalized.of(chars, stream.starts, stream.limits, splits)

    def _stream(self, texts):
        """Returns the characters of texts, cleaned, lowercased and stripped, and where texts begin as they came."""
        # The line feed is a space: no word, no sigma's neighbourhood and no run of marks reaches into the next text.
        decoded = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8", errors="ignore")
        chars, at = decoded.flat_values, tf.range(tf.size(decoded.flat_values))
        stream = _Stream(chars, at, at + 1, tf.gather(self._flags_table, self._places(chars)))
        stream = stream.take(_where_not(stream.flags, characters.DELETED))
        if self._do_lower_case:
            stream = self._lowered(_with_final_sigma(stream))
        if self._strip_accents:
            stream = _strip_marks(_in_canonical_order(stream))
        return stream, decoded.row_splits

    def _places(self, chars):
        return tf.gather(self._pages, chars // characters.PAGE) * characters.PAGE + chars % characters.PAGE

    def _lowered(self, stream):
        """Replaces each character by its lower case, decomposed where accents are stripped: one to four characters."""
        deltas = tf.gather(self._deltas, self._places(stream.chars))  # [characters, 4]
        deltas = tf.reshape(deltas, [-1])
        indices = tf.where(deltas != characters.NOTHING)[:, 0]
        origin = indices // characters.LONGEST
        chars = tf.gather(stream.chars, origin) + tf.gather(deltas, indices)
        flags = tf.gather(self._flags_table, self._places(chars))
        return _Stream(chars, tf.gather(stream.starts, origin), tf.gather(stream.limits, origin), flags)


def _where_not(flags, bits):
    return tf.where(flags & bits == 0)[:, 0]


def _with_final_sigma(stream):
    """Σ after a cased character and before none is ς in lower case (Unicode's Final_Sigma, as in Python's lower())."""

    def replaced():
        seen = _where_not(stream.flags, characters.TRANSPARENT)
        cased = tf.gather(stream.flags, seen) & characters.CASED != 0
        before, after = tf.concat([[False], cased[:-1]], 0), tf.concat([cased[1:], [False]], 0)
        final = (tf.gather(stream.chars, seen) == _CAPITAL_SIGMA) & before & ~after
        at = tf.boolean_mask(seen, final)[:, None]
        return tf.tensor_scatter_nd_update(stream.chars, at, tf.fill([tf.size(at)], _FINAL_SIGMA))

    chars = tf.cond(tf.reduce_any(stream.chars == _CAPITAL_SIGMA), replaced, lambda: stream.chars)
    return stream._replace(chars=chars)


def _in_canonical_order(stream):
    """Sorts, within each run of combining characters, those that stay by their class.

    Marks that are stripped anyway need no sorting. Each sorted character is given the extent of all of its run's, so
    that offsets hold what they name and never go back.
    """
    classes = stream.flags // characters.COMBINING_CLASS  # the highest bits

    def sorted_fields():
        at = tf.where(stream.flags & characters.REORDERED != 0)
        run = tf.gather_nd(tf.cumsum(tf.cast(classes == 0, tf.int64)), at)
        order = tf.argsort(run * 256 + tf.cast(tf.gather_nd(classes, at), tf.int64), stable=True)
        _, member = tf.unique(run)
        first = tf.gather(tf.math.segment_min(tf.gather_nd(stream.starts, at), member), member)
        last = tf.gather(tf.math.segment_max(tf.gather_nd(stream.limits, at), member), member)
        chars = tf.gather(tf.gather_nd(stream.chars, at), order)
        updates = ((stream.chars, chars), (stream.starts, first), (stream.limits, last))
        return tuple(tf.tensor_scatter_nd_update(field, at, values) for field, values in updates)

    needed = tf.reduce_any(stream.flags & characters.REORDERED != 0)
    chars, starts, limits = tf.cond(needed, sorted_fields, lambda: (stream.chars, stream.starts, stream.limits))
    return stream._replace(chars=chars, starts=starts, limits=limits)  # flags: those sorted are letters


def _strip_marks(stream):
    """Drops marks; the character before a run of marks takes over where the run ends."""
    indices = _where_not(stream.flags, characters.MARK)
    following = tf.concat([indices, tf.shape(stream.flags, tf.int64)], 0)[1:]
    stayed, run_ends = stream.take(indices), tf.gather(stream.limits, following - 1)
    return stayed._replace(limits=tf.maximum(stayed.limits, run_ends))


def _words(stream, row_splits):
    apart = stream.flags & characters.ISOLATED != 0
    cut = stream.flags & (characters.SPACE | characters.ISOLATED) != 0
    begins = apart | tf.concat([[True], cut], 0)[:-1]
    solid = _where_not(stream.flags, characters.SPACE)
    chars, starts, limits, _ = stream.take(solid)
    first = tf.where(tf.gather(begins, solid))[:, 0]
    splits = tf.concat([first, tf.shape(chars, tf.int64)], 0)
    rows = tf.searchsorted(row_splits, tf.cast(tf.gather(starts, first), tf.int64), "right", tf.int64) - 1
    origins = tf.cast(tf.gather(row_splits, rows), tf.int32)
    chars = tf.RaggedTensor.from_row_splits(chars, splits, validate=False)
    return WordBatch(chars, rows, origins, starts, limits)


# === Wordpiece ===


_MOST_BYTES = 4  # of a character in UTF-8


class Tokenizer(BaseTokenizer):
    """Turns text into the ids of WordPiece tokens.

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
    FILES: ClassVar = (VOCAB_FILE,)
    SPACES: ClassVar = r"[ \t\n\r\p{Zs}]{32,}"
    _APART: ClassVar = characters.CJK

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str] | Vocabulary,
        do_lower_case: bool = True,
        template: InputTemplate | None = None,
        strip_accents: bool | None = None,
        max_input_chars_per_word: int | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Reads the vocabulary.

        Args:
            vocab: path of a file with one token a line, or of a tokenizer.json, of which its vocabulary and longest
                word are taken; or the tokens, also as a `Vocabulary`.
            do_lower_case: False for cased models.
            template: None: BERT's.
            strip_accents: None: as do_lower_case. Some models of other languages only lowercase.
            max_input_chars_per_word: None: what tokenizer.json says, else google-research/bert's 200.
            added_tokens: what is found in a text before it is split; behind the vocabulary, or in it with the same ids.

        Raises:
            ValueError: no file, no BERT vocabulary (one of [PAD], [UNK], [CLS], [SEP] is missing), one without a token
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
            self._subwords = tf_text.FastWordpieceTokenizer(
                vocab=self._vocabulary.matchable(),
                unknown_token=UNKNOWN,
                max_bytes_per_word=_MOST_BYTES * self.max_input_chars_per_word,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )
        self._take_added_tokens(added_tokens)

    @classmethod
    def _from_vocabulary(cls, vocab_file, directory, do_lower_case, template, settings):
        lower, strip_accents = resolve_case_and_accents(directory, do_lower_case)
        tokenizer = cls(vocab_file, lower, template, strip_accents)
        if do_lower_case is None and "do_lower_case" not in read_config(directory):
            warn_of_capitals(tokenizer.vocab, tokenizer.vocab_file)
        return tokenizer

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        lower, strip_accents = file_precedence.case_and_accents(whole, directory, do_lower_case)
        vocabulary = Vocabulary.of_whole(whole, template)
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = Vocabulary.read(path)
            lines = [token if other.id_of(token) == i else "" for i, token in enumerate(other.tokens)]
            file_precedence.warn_of_vocabulary(whole.path, vocabulary.tokens[: whole.own], path, lines)
        tokenizer = cls(vocabulary, lower, template, strip_accents)
        tokenizer.vocab_file = whole.path
        return tokenizer

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens of all tokenizers, but those that begin or end a text, which BERT does not have."""
        return {name: token for name, token in super().special_tokens.items() if name not in ("bos_token", "eos_token")}

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "strip_accents", "max_input_chars_per_word")
        return self._with_added({name: getattr(self, name) for name in names})

    def _write_vocabulary(self, directory):
        self._vocabulary.save(os.path.join(directory, VOCAB_FILE))

    def _tokenizer_json(self):
        return tokenizer_json_writer.wordpiece_json(self)

    def _tokenizer_config(self):
        settings = case_settings(self.do_lower_case, self.strip_accents)
        settings |= added_tokens_config(self.added_tokens)
        if self.template.pieces(2) != InputTemplate().pieces(2):
            settings |= {name: self.special_tokens[name] for name in ("cls_token", "sep_token")}
        return "BertTokenizer", settings

    def _ids_and_offsets(self, texts):
        words, ids, starts, limits = self._tokens_of_words(texts)
        row_of_token = tf.gather(words.rows, ids.value_rowids())
        rows = tf.RaggedTensor.from_value_rowids(
            ids.flat_values, row_of_token, nrows=tf.size(texts, tf.int64), validate=False
        )
        return rows, rows.with_flat_values(starts), rows.with_flat_values(limits)

    def _by_words(self, texts):
        words, ids, starts, limits = self._tokens_of_words(texts)
        rows = tf.RaggedTensor.from_value_rowids(ids, words.rows, nrows=tf.size(texts, tf.int64), validate=False)
        return rows, rows.with_flat_values(starts), rows.with_flat_values(limits)

    def _normalized(self, texts):
        return self._splitter.normalized(texts)

    def _tokens_of_words(self, texts):
        """Returns the words, ids [words, (tokens)], and int32 [tokens] twice: where tokens begin and end."""
        words = self._splitter(texts)
        strings = tf.strings.unicode_encode(words.chars, "UTF-8")
        too_long = words.chars.row_lengths() > self.max_input_chars_per_word
        ids, starts, ends = self._subwords.tokenize_with_offsets(tf.where(too_long, " ", strings))
        return words, ids, *_to_characters(words, ids, starts.flat_values, ends.flat_values, self.unk_id)


def _to_characters(words: WordBatch, ids, starts, ends, unk_id):
    """Turns bytes of normalised words into code points of the text as it came: int32 [tokens] twice."""
    chars, word = words.chars.flat_values, ids.value_rowids()
    byte_of_char = tf.cumsum(tf.cast(utf8_lengths(chars), tf.int64), exclusive=True)
    word_first = tf.gather(words.chars.row_starts(), word)
    base = tf.gather(byte_of_char, word_first)

    def char_at(byte):
        return tf.searchsorted(byte_of_char, base + tf.cast(byte, tf.int64), "right", tf.int64) - 1

    whole = ids.flat_values == unk_id  # also of the blank that stands for a word which is too long
    first = tf.where(whole, word_first, char_at(starts))
    last = tf.where(whole, tf.gather(words.chars.row_limits(), word) - 1, char_at(ends - 1))
    origin = tf.gather(words.origins, word)
    return tf.gather(words.starts, first) - origin, tf.gather(words.limits, last) - origin
