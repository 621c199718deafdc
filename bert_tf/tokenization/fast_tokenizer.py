"""A model's tokenizer in plain Python: one text costs a tenth of what it costs in the graph, and TensorFlow is not
imported. The ids and offsets are those of the graph; many texts at once are its business."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.models.config import EncoderConfig, template_for
from bert_tf.models.config_files import model_type_in
from bert_tf.models.family_registry import family
from bert_tf.tokenization.fast_added_tokens import FastAddedTokens
from bert_tf.tokenization.fast_byte_bpe import FastByteBpe
from bert_tf.tokenization.fast_mecab import FastMecab
from bert_tf.tokenization.fast_sentencepiece_bpe import FastSentencePieceBpe
from bert_tf.tokenization.fast_tokens import Tokens
from bert_tf.tokenization.fast_unigram import FastUnigram
from bert_tf.tokenization.fast_wordpiece import FastWordPiece
from bert_tf.tokenization.table_registry import TABLES, TABLES_FILE, read_saved_tables, read_tables, tokenizer_in
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.window_sizes import check_question_lengths, kept_of_pair, window_starts
from bert_tf.utils.files import brief

_ENGINES = {
    "wordpiece": FastWordPiece, "byte_bpe": FastByteBpe, "unigram": FastUnigram,
    "sentencepiece_bpe": FastSentencePieceBpe, "mecab": FastMecab,
}  # fmt: skip
_NOWHERE = Tokens([], [], [])


class EncodedTexts(NamedTuple):
    """The w sequences of some texts or text pairs, with the places that their tokens came from.

    Attributes:
        inputs: "input_ids", "input_mask" and "segment_ids", int32 [w, S]; S is that of the longest sequence.
        starts, ends: int32 [w, S], span of each token in its text, half-open, in code points; 0, 0 for special tokens
            and padding.
        of_text: int32 [w, S], 0 for tokens of the first text, 1 for those of the second; -1 for special tokens and
            padding.
        rows: int32 [w], the texts or the pair that each sequence belongs to; ascending.
        firsts: int32 [w], which token of the text, or of the second text of a pair, each sequence has first.
    """

    inputs: dict[str, np.ndarray]
    starts: np.ndarray
    ends: np.ndarray
    of_text: np.ndarray
    rows: np.ndarray
    firsts: np.ndarray


class FastTokenizer:
    """Converts texts to token ids and model inputs, in plain Python.

        tokenizer = load_fast_tokenizer("demo/weights/minilm")
        tokenizer.encode([["Is it?", "It is."]], 16)     # input_ids, input_mask, segment_ids: int32 [1, 9]

    A text is a str, or bytes in UTF-8, of which invalid ones are dropped. Special tokens written in a text are ordinary
    text; added tokens are matched before tokenization.

    Args:
        tables: the tables of a tokenizer, or one that runs in the graph, which has them.

    Attributes:
        tables: the tables.
    """

    def __init__(self, tables: TokenizerTables) -> None:
        self.tables = tables
        self._engine = _ENGINES[tables.KIND](tables)
        matched = tables.matched_tokens
        self._added = FastAddedTokens(matched, self._engine.normalized, tables.APART) if matched else None

    def tokenize(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of a text, without special tokens."""
        text = _checked(text)
        return self._engine.ids(text) if self._added is None else self._with_added(text).ids

    def tokenize_with_offsets(self, text: str | bytes) -> Tokens:
        """Returns the token ids of a text and the span of each, as `BaseTokenizer.tokenize_with_offsets`."""
        text = _checked(text)
        return self._engine.tokens(text) if self._added is None else self._with_added(text)

    def encode(self, texts: Iterable[Sequence[str | bytes]], max_seq_length: int) -> dict[str, np.ndarray]:
        """Returns the model inputs of texts or text pairs, truncated like `BaseTokenizer.pack`.

        Args:
            texts: one text each, in a list or tuple, or two.
            max_seq_length: maximum tokens per sequence, including special tokens.

        Returns:
            "input_ids", "input_mask" and "segment_ids", int32 [n, S]; S is that of the longest sequence.

        Raises:
            ValueError: max_seq_length has no room for the special tokens, the model does not support pairs, or an
                input is not texts.
        """
        rows = []
        for given in _rows(texts):
            ids = [self.tokenize(text) for text in given]
            rows.append([part[:length] for part, length in zip(ids, self._lengths(ids, max_seq_length), strict=True)])
        return self._packed(rows)

    def encode_with_origins(self, texts: Iterable[Sequence[str | bytes]], max_seq_length: int) -> EncodedTexts:
        """Returns what `encode` does, with the places that tokens came from; arguments and errors are the same."""
        sequences = []
        for row, given in enumerate(_rows(texts)):
            parts = [self.tokenize_with_offsets(text) for text in given]
            lengths = self._lengths([part.ids for part in parts], max_seq_length)
            sequences.append((row, 0, [part.cut(0, length) for part, length in zip(parts, lengths, strict=True)]))
        return self._encoded(sequences)

    def encode_windows(self, texts: Iterable[str | bytes], max_seq_length: int, stride: int) -> EncodedTexts:
        """Returns one sequence per window of each text's tokens, as in `windows.find_windows`.

        Args:
            texts: the texts.
            max_seq_length: maximum tokens per sequence, including special tokens.
            stride: tokens from one window's start to the next one's.

        Raises:
            ValueError: max_seq_length has no room for a token, or tokens would fall between two windows.
        """
        room = self.tables.template.room_for(1, max_seq_length)
        if not 1 <= stride <= room:
            raise ValueError(
                f"`stride` must be from 1 to {room}, the number of tokens that fit into a sequence of "
                f"`max_seq_length`; got {stride}; with a larger one, tokens would fall between two windows."
            )
        sequences = []
        for row, text in enumerate(texts):
            tokens = self.tokenize_with_offsets(text)
            sequences += [(row, at, [tokens.cut(at, room)]) for at in window_starts(len(tokens.ids), room, stride)]
        return self._encoded(sequences)

    def encode_questions(
        self,
        questions: Iterable[str | bytes],
        contexts: Iterable[str | bytes],
        max_seq_length: int,
        doc_stride: int,
        max_query_length: int,
    ) -> EncodedTexts:
        """Returns questions paired with the windows of their contexts, as `question_windows.encode_questions`.

        Raises:
            ValueError: the lengths leave no room for the context, or leave gaps in it.
        """
        template = self.tables.template
        template.check(2)
        check_question_lengths(template, max_seq_length, max_query_length, doc_stride)
        sequences = []
        for row, (question, context) in enumerate(zip(questions, contexts, strict=True)):
            asked = self.tokenize_with_offsets(question).cut(0, max_query_length)
            tokens = self.tokenize_with_offsets(context)
            room = max_seq_length - template.special(2) - len(asked.ids)
            starts = window_starts(len(tokens.ids), room, doc_stride)
            sequences += [(row, at, [asked, tokens.cut(at, room)]) for at in starts]
        return self._encoded(sequences)

    def _with_added(self, text):
        """Returns the tokens of a text in which added tokens are matched."""
        tokens = Tokens([], [], [])
        for section in self._added(text):
            tokens.extend(self._engine.section(section), section.origin)
            if section.token is not None:
                tokens.extend(Tokens([section.token.id], [section.start], [section.end]), 0)
        return tokens

    def _lengths(self, ids, max_seq_length):
        """Returns how many tokens are kept of one text or of two."""
        template = self.tables.template
        template.check(len(ids))
        room = template.room_for(len(ids), max_seq_length)
        if len(ids) == 1:
            return [min(len(ids[0]), room)]
        return kept_of_pair(*map(len, ids), room)

    def _packed(self, rows):
        """Returns the model inputs of sequences of one or two texts, from the ids of each."""
        template, number = self.tables.template, self.tables.id_of
        before, between, after = (
            list(map(number, each)) for each in (template.before, template.between, template.after)
        )
        ids, segments = [], []
        for row in rows:
            first = [*before, *row[0]]
            second, segment = after, 0
            if len(row) > 1:
                first += between
                second, segment = [*row[1], *after], template.second_segment
            ids.append(first + second)
            segments.append([0] * len(first) + [segment] * len(second))
        return {
            "input_ids": _padded(ids, self.tables.pad_id),
            "input_mask": _padded([[1] * len(row) for row in ids], 0),
            "segment_ids": _padded(segments, 0),
        }

    def _encoded(self, sequences):
        """Returns `EncodedTexts` of sequences: (row, first token, tokens of one or two texts)."""
        template = self.tables.template
        nothing = [len(each) for each in (template.before, template.between, template.after)]
        starts, ends, of_text = [], [], []
        for _, _, (first, *others) in sequences:
            second = others[0] if others else _NOWHERE
            gap = nothing[1] if others else 0
            for columns, values in ((starts, (first.starts, second.starts)), (ends, (first.ends, second.ends))):
                columns.append([0] * nothing[0] + values[0] + [0] * gap + values[1] + [0] * nothing[2])
            texts = [0] * len(first.ids) + [-1] * gap + [1] * len(second.ids)
            of_text.append([-1] * nothing[0] + texts + [-1] * nothing[2])
        return EncodedTexts(
            self._packed([[part.ids for part in parts] for _, _, parts in sequences]),
            *(_padded(starts, 0), _padded(ends, 0), _padded(of_text, -1)),
            *(np.array([each[n] for each in sequences], np.int32) for n in (0, 1)),
        )


def load_fast_tokenizer(source: TokenizerTables | str | os.PathLike) -> FastTokenizer:
    """Returns the fast tokenizer of a model.

    Args:
        source: a tokenizer, such as `bert_tf.load(path).tokenizer`; or a directory: of a model, or one that
            `table_registry.save_tables` wrote.

    Raises:
        ValueError: there is no vocabulary, or the content of a file does not match its name.
    """
    if isinstance(source, TokenizerTables):
        return FastTokenizer(source)
    directory = os.fspath(source)
    if os.path.isfile(os.path.join(directory, TABLES_FILE)):
        return FastTokenizer(read_saved_tables(directory))
    if model_type_in(directory):
        config = EncoderConfig.load(directory)
        row, template = family(config.model_type), template_for(config)
    else:
        row = TABLES[tokenizer_in(directory) or "wordpiece"].family_of(directory)
        template = row.template
    return FastTokenizer(read_tables(directory, row, template))


def _checked(text):
    """Returns a text as a str of valid Unicode."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    if not isinstance(text, str):
        raise ValueError(f"A text must be a str or bytes; got {type(text).__name__}: {brief(text)}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"A text must be valid Unicode; got half of a surrogate pair in {text!a:.80}; remove it."
        ) from None
    return text


def _rows(texts):
    """Yields the one or two texts of each row, of which all must have as many."""
    count = None
    for row in texts:
        if isinstance(row, (str, bytes)) or len(row) not in (1, 2) or count not in (None, len(row)):
            raise ValueError(
                f"`texts` must be rows of one text each, or of two each; got {brief(row)}; put each text, or each "
                "pair of texts, into a list."
            )
        count = len(row)
        yield row


def _padded(rows, fill):
    """Returns rows of numbers, padded to that of the longest: int32 [n, S], with S at least 1."""
    width = max([1, *map(len, rows)])
    made = np.full((len(rows), width), fill, np.int32)
    for n, row in enumerate(rows):
        made[n, : len(row)] = row
    return made
