"""Google's BERT tokenizer in graph ops: equal, id for id, to FullTokenizer of google-research/bert, tokenization.py."""

import os
from collections.abc import Iterable, Mapping

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf import config_files, families
from bert_tf.families import Template
from bert_tf.names import SPECIAL_PIECES, UNKNOWN
from bert_tf.tokenization import packing
from bert_tf.tokenization import vocabulary as vocabularies
from bert_tf.tokenization.vocabulary import LONGEST_WORD, Vocabulary, check_case
from bert_tf.tokenization.words import Words, WordSplitter

__all__ = ["Tokenizer", "check_case"]

_MOST_BYTES = 4  # of a character in UTF-8


class Tokenizer(tf.Module):
    """Text to the ids of word pieces and on to the rows that BERT reads; eager, in tf.data and in a SavedModel alike.

        tokenizer = Tokenizer.from_directory("uncased_L-12_H-768_A-12")
        tokenizer.tokenize(["Unaffable!"])              # [[14477, 20961, 3468, 999]]     un ##aff ##able !
        tokenizer(["Is it?"], ["It is."], 16)           # input_ids, input_mask, segment_ids: int32 [1, 16]

    Unicode's properties are those of the `unicodedata` of the Python in which the object was made; a SavedModel keeps
    them. Special tokens written in the text stay text: "[CLS]" is "[", "cls", "]".

    Attributes:
        vocab: list of str, the pieces in the order of their ids.
        vocab_size: how many.
        vocab_file: the file's path, None when the vocabulary came as a list.
        do_lower_case: whether text is lowercased and stripped of accents.
        cls_id, sep_id, pad_id, unk_id, mask_id: ids of the special tokens; mask_id may be None.
        template: what stands around the texts of a row, a `families.Template`.
    """

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str],
        do_lower_case: bool = True,
        template: Template | None = None,
    ):
        """Reads the vocabulary.

        Args:
            vocab: path of a file with one piece a line, or the pieces.
            do_lower_case: False for cased models.
            template: None: BERT's.

        Raises:
            ValueError: no file, no BERT vocabulary (one of [PAD], [UNK], [CLS], [SEP] is missing), or one without a
                piece of the template.
        """
        super().__init__()
        self._vocabulary = Vocabulary.read(vocab)
        self.vocab_file = os.fspath(vocab) if isinstance(vocab, (str, os.PathLike)) else None
        self.do_lower_case = bool(do_lower_case)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(
            self._vocabulary.id_of, SPECIAL_PIECES
        )
        self.template = Template() if template is None else template
        self._check_template()
        self._splitter = WordSplitter(self.do_lower_case)
        with tf.init_scope(), tf.device("CPU:0"):
            self._pieces = tf_text.FastWordpieceTokenizer(
                vocab=self._vocabulary.matchable(),
                unknown_token=UNKNOWN,
                max_bytes_per_word=_MOST_BYTES * LONGEST_WORD,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )

    @property
    def vocab(self) -> list[str]:
        return self._vocabulary.pieces

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary.pieces)

    @classmethod
    def from_directory(
        cls, path, do_lower_case: bool | None = None, vocab_file=None, template: Template | None = None
    ) -> "Tokenizer":
        """Makes the tokenizer of a checkpoint's directory.

        Args:
            path: directory with `vocab.txt` and perhaps `tokenizer_config.json`.
            do_lower_case: None: what `tokenizer_config.json` says, else True.
            vocab_file: another vocabulary than the directory's.
            template: None: that of the family of the directory's configuration, BERT's where there is none.

        Raises:
            ValueError: no vocabulary; a letter case that contradicts the directory's file or name; a setting in
                `tokenizer_config.json` that Google's algorithm does not have.
        """
        directory = os.fspath(path)
        do_lower_case = vocabularies.resolve_case(directory, do_lower_case)
        if template is None:
            template = families.family(config_files.model_type_in(directory) or families.DEFAULT).template
        return cls(vocab_file or os.path.join(directory, vocabularies.VOCAB_FILE), do_lower_case, template)

    def _check_template(self):
        missing = [piece for piece in self.template.pieces(2) if self._vocabulary.id_of(piece) is None]
        if missing:
            raise ValueError(
                f"The vocabulary must hold the special pieces of its model, {' '.join(self.template.pieces(2))}. "
                f"Received {self.vocab_size} pieces without {missing[0]}: is it another model's vocabulary?"
            )

    def save(self, directory: str | os.PathLike):
        """Writes `vocab.txt` and `tokenizer_config.json`, which `from_directory` reads."""
        directory = os.fspath(directory)
        os.makedirs(directory, exist_ok=True)
        self._vocabulary.save(os.path.join(directory, vocabularies.VOCAB_FILE))
        vocabularies.write_config(directory, self.do_lower_case)

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each text, without special tokens.

        Args:
            texts: strings [n], UTF-8; bytes that are no UTF-8 are dropped, as google-research/bert does.

        Returns:
            RaggedTensor of int32 [n, (pieces)].
        """
        return self._tokenize(_strings(texts))

    def tokenize_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the ids of the pieces of each text and where in it they came from.

        Args:
            texts: strings [n], UTF-8.

        Returns:
            ids, starts, limits: RaggedTensors of int32 [n, (pieces)]. A piece came from text[start:limit], counted in
            Unicode code points of the text as it came (after bytes that are no UTF-8 were dropped). Accents that were
            stripped count to the letter before them; [UNK] extends over its whole word; pieces of one character, such
            as the three of a Hangul syllable, share its extent.
        """
        return self._tokenize_with_offsets(_strings(texts))

    def pack(self, ids_a, ids_b=None, max_seq_length: int = 128) -> dict[str, tf.RaggedTensor]:
        """Joins ids of one or two texts a row with the template's special pieces; see `packing.pack`.

        Args:
            ids_a, ids_b: RaggedTensors of int32 [n, (pieces)], as from `tokenize`.
            max_seq_length: pieces in a row at most, special tokens included.

        Returns:
            "input_ids" and "segment_ids", RaggedTensors of int32 [n, (length)].

        Raises:
            ValueError: max_seq_length has no room for the special tokens, or the model has no segment for a second
                text.
        """
        return packing.pack(ids_a, ids_b, max_seq_length, self.template, self._vocabulary.id_of)

    def pad(self, packed: Mapping[str, tf.RaggedTensor], seq_length: int | None = None) -> dict[str, tf.Tensor]:
        """Returns "input_ids", "input_mask" and "segment_ids", int32 [n, seq_length]; see `packing.pad`.

        Args:
            packed: what `pack` returned.
            seq_length: None: the longest row's.

        Raises:
            tf.errors.InvalidArgumentError: a row is longer than seq_length.
        """
        return packing.pad(packed, seq_length, self.pad_id)

    def __call__(self, text_a, text_b=None, max_seq_length: int = 128) -> dict[str, tf.Tensor]:
        """Returns BERT's inputs for texts (strings [n]) or pairs of them: three int32 [n, max_seq_length]."""
        ids_b = None if text_b is None else self.tokenize(text_b)
        return self.pad(self.pack(self.tokenize(text_a), ids_b, max_seq_length), max_seq_length)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, texts):
        return self._ids_and_offsets(texts)[0]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize_with_offsets(self, texts):
        return self._ids_and_offsets(texts)

    def _ids_and_offsets(self, texts):
        """The one way from text to ids; a graph that does not use the offsets does not compute them."""
        with tf.device("CPU:0"):  # a GPU has no string ops and would copy the rest to and fro
            words = self._splitter(texts)
            strings = tf.strings.unicode_encode(words.chars, "UTF-8")
            too_long = words.chars.row_lengths() > LONGEST_WORD
            ids, starts, ends = self._pieces.tokenize_with_offsets(tf.where(too_long, " ", strings))
            starts, limits = _to_characters(words, ids, starts.flat_values, ends.flat_values, self.unk_id)
            row_of_piece = tf.gather(words.rows, ids.value_rowids())
            rows = tf.RaggedTensor.from_value_rowids(
                ids.flat_values, row_of_piece, nrows=tf.size(texts, tf.int64), validate=False
            )
            return rows, rows.with_flat_values(starts), rows.with_flat_values(limits)


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


def _strings(texts):
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank not in (None, 1):
        raise ValueError(f"The texts must be strings [n]. Received the shape {texts.shape}; put one text into a list.")
    return texts
