"""Tokenizers of SentencePiece's unigram models in graph ops (Kudo 2018), as in ALBERT and XLM-RoBERTa."""

import functools
import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import file_precedence, tokenizer_json_writer
from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.base_tokenizer import BaseTokenizer, TokenList
from bert_tf.tokenization.flat_ops import shift, utf8_lengths
from bert_tf.tokenization.letter_case import case_setting
from bert_tf.tokenization.special_token_files import family_of_tokenizer
from bert_tf.tokenization.tokenizer_config import (
    CASE_OF_UNIGRAM,
    CONFIG_FILE,
    check_tokenizer_config,
    without_unread_case,
)
from bert_tf.tokenization.tokenizer_json import METASPACE
from bert_tf.tokenization.unigram_normalizer import Normalizer, Replacements
from bert_tf.utils.files import atomic_open

_CLASS = "AlbertTokenizer"  # what Transformers calls a tokenizer of all families but those whose row says otherwise
_OF_CLASS = {
    _CLASS: "spiece.model", "XLMRobertaTokenizer": "sentencepiece.bpe.model", "DebertaV2Tokenizer": "spm.model"
}  # fmt: skip
_TRAILING_SPACE = ("dropped", "kept", "kept_inside")
_PENALTY = 100.0  # what keeps "9," from being one token, as in Hugging Face's tokenizers for ALBERT
_REPLACED = -1  # in place of the id of a piece


def _penalize_digit_comma(model):
    for piece in model.pieces:
        if len(piece.piece) > 1 and piece.piece[-1] == "," and piece.piece[-2].isdigit():
            piece.score -= _PENALTY


def _place_tokens(model, front, behind):
    """Returns (token, score) for each id, and the id of each piece of the model, int32 [pieces]."""
    first = models.first_ordinary(model) if front else 0
    scores = [(token, 0.0) for token in front]
    scores += [(piece.piece, piece.score) for piece in model.pieces[first:]]
    scores += [(token, 0.0) for token in behind]
    ids = np.arange(len(model.pieces), dtype=np.int32) + len(front) - first
    ids[:first] = _REPLACED
    return scores, ids


def _check_trailing_space(trailing_space):
    if trailing_space not in _TRAILING_SPACE:
        raise ValueError(
            f"`trailing_space` must be {', '.join(_TRAILING_SPACE[:-1])} or {_TRAILING_SPACE[-1]}. Received: "
            f"{trailing_space!r}; correct it."
        )


class UnigramTokenizer(BaseTokenizer):
    """Converts text to the token ids of a SentencePiece unigram model.

        tokenizer = UnigramTokenizer.from_directory("albert-base-v2")
        tokenizer.tokenize(["Hello world"])             # [[10975, 126]]     ▁hello ▁world

    Text is normalized according to the settings and the model's character map, then split at white space. Each word,
    prefixed with "▁", is split into its most probable sequence of tokens.

    Attributes:
        keep_accents: if true, text is not decomposed (NFKD) and keeps its marks.
        straight_quotes: whether `` and '' become ".
        maps_characters: whether the model replaces characters, such as full-width forms.
    """

    KIND: ClassVar = "unigram"
    FILES: ClassVar = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")

    def __init__(
        self,
        vocab_file: str | os.PathLike,
        template: InputTemplate,
        do_lower_case: bool = False,
        keep_accents: bool = True,
        straight_quotes: bool = False,
        split_digit_comma: bool = False,
        trailing_space: str = "dropped",
        front: Sequence[str] = (),
        behind: Sequence[str] = (),
        tokenizer_class: str = _CLASS,
        model_data: bytes | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Reads a SentencePiece model.

        Args:
            vocab_file: path of the model file.
            template: the family's input template.
            do_lower_case: whether each character is lowercased.
            keep_accents: see above.
            straight_quotes: see above.
            split_digit_comma: whether a comma after a digit is a token of its own.
            trailing_space: handling of a space at the end of a text or before an added token. "dropped": removed, as in
                SentencePiece; "kept": becomes a token "▁" of its own; "kept_inside": the same, but only before an added
                token that is matched in normalized text. The pre_tokenizer of tokenizer.json decides this.
            front: tokens in place of the control tokens at the beginning of the model; () keeps them.
            behind: tokens after the model's, unless it has them.
            tokenizer_class: the corresponding class name of Hugging Face.
            model_data: the bytes of the model, if `vocab_file` is the tokenizer.json it was built from.
            added_tokens: tokens matched in the text before it is split; after the vocabulary, or in it with the same
                ids.

        Raises:
            ValueError: the file is not a unigram model, a special token is missing, or an added token does not match
                the vocabulary.
        """
        model, self._data = models.read_model(vocab_file, model_data)
        if split_digit_comma:
            _penalize_digit_comma(model)
        there = {piece.piece for piece in model.pieces}
        behind = [token for token in behind if token not in there]
        scores, ids = _place_tokens(model, front, behind)
        tokens = [token for token, _ in scores]
        vocabulary = TokenList(tokens, {token: i for i, token in reversed(list(enumerate(tokens)))})
        super().__init__(vocabulary, vocab_file, template, (template.pad, template.unknown, template.mask))
        self.do_lower_case, self.keep_accents = bool(do_lower_case), bool(keep_accents)
        self.straight_quotes, self._tokenizer_class = bool(straight_quotes), tokenizer_class
        _check_trailing_space(trailing_space)
        self.trailing_space = trailing_space
        self._more = {"split_digit_comma": split_digit_comma, "front": list(front), "behind": list(behind)}
        blob = model.normalizer_spec.precompiled_charsmap
        mapping = models.character_map(blob, self.vocab_file)
        self.maps_characters = bool(mapping)
        # Not as attributes, of which tf.Module would track each score.
        self._whole = functools.partial(tokenizer_json_writer.unigram_json, self, scores, blob)
        self._normalizer = Normalizer(mapping, self.do_lower_case, self.keep_accents, self.straight_quotes)
        ids[ids == _REPLACED] = self.unk_id
        # By characters: a number above 0 for those of the pieces that represent text.
        pieces = (piece.piece for piece in model.pieces if piece.type not in (models.CONTROL, models.UNKNOWN))
        self._known = Replacements({ord(char): char for piece in pieces for char in piece})
        with tf.init_scope(), tf.device("CPU:0"):
            self._ids, self._words = tf.constant(ids), _word_splitter(model, self.vocab_file)
        self._take_added_tokens(added_tokens)

    @classmethod
    def _owner(cls, directory, config, family, template, whole):
        path = os.path.join(directory, CONFIG_FILE)
        return family_of_tokenizer(path, config, cls.KIND, family, template, whole.layout if whole else None)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, CONFIG_FILE)
        settings = dict(family.tokenizing_by(cls.KIND))
        own_class = settings.get("tokenizer_class", _CLASS) if settings else None
        check_tokenizer_config(config_path, config, cls.KIND, own_class)
        config = without_unread_case(config_path, config, settings.get("tokenizer_class"))
        usual = settings.get("do_lower_case", False)
        settings["do_lower_case"] = case_setting(config_path, config, do_lower_case, usual)
        settings["keep_accents"] = config.get("keep_accents", settings.get("keep_accents", True))
        known = (("keep_accents", (True, False)), ("remove_space", (None, True)), ("add_prefix_space", (None, True)))
        for key, values in known:
            if settings.get(key, config.get(key)) not in values:
                raise ValueError(
                    f"{config_path}: {key} must be {' or '.join(json.dumps(v) for v in values if v is not None)}. "
                    f"Received: {json.dumps(config.get(key))}; other settings are not supported."
                )
        return settings

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        """Builds the tokenizer and its SentencePiece model, which equals the family's as far as possible."""
        settings |= file_precedence.unigram_settings(
            whole, directory, do_lower_case, settings.get("tokenizer_class")
        )
        scores, unknown = whole.model["vocab"], whole.model.get("unk_id")
        tokens = whole.vocabulary(template)
        if type(unknown) is not int or tokens[unknown : unknown + 1] != [template.unknown]:
            raise ValueError(
                f"{whole.path}: model.unk_id must be the id of {template.unknown}. Received: {unknown}; use the "
                "tokenizer.json that belongs to the model."
            )
        settings["split_digit_comma"] = False  # the scores have it already, if at all
        front, behind = (tuple(settings.get(key, ())) for key in ("front", "behind"))
        end = whole.own - len(behind)
        kinds = dict.fromkeys({*whole.special, *template.pieces(2), template.pad, template.mask}, models.CONTROL)
        kinds[template.unknown] = models.UNKNOWN
        if front and tuple(tokens[: len(front)]) == front and tuple(tokens[end : whole.own]) == behind:
            settings["behind"] = tuple(tokens[end:])
            control = [template.unknown, template.before[0], template.after[-1]]
            entries = [(token, 0.0, kinds[token]) for token in control]
            entries += [(*scores[i], models.NORMAL) for i in range(len(front), end)]
        else:
            settings["front"] = settings["behind"] = ()
            entries = [(*entry, kinds.get(entry[0], models.NORMAL)) for entry in scores]
            entries += [(token, 0.0, models.CONTROL) for token in tokens[whole.own :]]
        data = models.model_bytes(entries, whole.character_map)
        tokenizer = cls(whole.path, template, **settings, model_data=data)
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = [piece.piece for piece in models.read_model(path)[0].pieces if piece.type in (0, models.NORMAL)]
            there = {*other}
            file_precedence.warn_of_vocabulary(
                whole.path, [token for token in tokens[: whole.own] if token in there], path, other
            )
        return tokenizer

    @property
    def written_tokens(self) -> list[str]:
        added = {token.content for token in self.added_tokens}
        return [token if token in added else token.replace(METASPACE, " ") for token in self.vocab]

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "keep_accents", "straight_quotes", "trailing_space")
        named = {name: getattr(self, name) for name in names}
        return self._with_added(named | {"tokenizer_class": self._tokenizer_class} | self._more)

    def _write_vocabulary(self, directory):
        with atomic_open(os.path.join(directory, self._model_name), "wb") as file:
            file.write(self._data)

    def _tokenizer_json(self):
        return self._whole()

    def _tokenizer_config(self):
        # Only what the class reads: tokenizer.json, which is written too, has all of it.
        settings = {name: getattr(self, name) for name in CASE_OF_UNIGRAM.get(self._tokenizer_class, ())}
        settings |= self.special_tokens | added_tokens_config(self.added_tokens, self.special_added_tokens)
        return self._tokenizer_class, settings

    @property
    def remarks_for_transformers(self) -> tuple[str, ...]:
        """Remarks on what Transformers tokenizes otherwise: version 5 ignores the character map of one class."""
        if self._tokenizer_class != "DebertaV2Tokenizer" or not self.maps_characters:
            return ()
        return (
            "Transformers 5 does not apply the character map of this vocabulary: full-width forms such as '\uff0c' "
            "stay as they are and may become the unknown token. Transformers 4 and bert_tf map them, as in training. "
            "For equal tokens in Transformers 5, normalize its texts to NFKC.",
        )

    @property
    def _MASK_LSTRIP(self):
        return self._tokenizer_class != "DebertaV2Tokenizer"

    def _normalized(self, texts):
        stream, _, splits = self._normalizer(texts)
        made = Normalized.of(*stream, splits)
        blank = made.chars.flat_values == ord(" ")
        if self.trailing_space == "dropped":
            return made.keep(~(blank & shift(blank, 1)))  # which splits words alike; tokens are looked up in it
        # Here it counts where a run of spaces ends, and that XLM-RoBERTa's becomes a marker, which is no white space.
        row = made.chars.value_rowids()  # a carriage return at the end may have taken the mark of the text's end
        begins = ~(blank & shift(blank, 1) & (row == shift(row, 1)))
        first = tf.where(begins)[:, 0]
        last = tf.concat([first, tf.shape(blank, tf.int64)], 0)[1:] - 1
        runs = tf.gather(blank, first) & (last > first) & (self.trailing_space == "kept_inside")
        ends = tf.tensor_scatter_nd_update(made.ends, first[:, None], tf.gather(made.ends, last))
        flat = made.chars.flat_values
        flat = tf.tensor_scatter_nd_update(flat, first[:, None], tf.where(runs, ord(METASPACE), tf.gather(flat, first)))
        return made._replace(chars=made.chars.with_flat_values(flat), ends=ends).keep(begins)

    @property
    def _model_name(self):
        """File name of the saved SentencePiece model: Hugging Face's, unless its reader would give the tokens other
        ids."""
        name = os.path.basename(self.vocab_file)
        if name in self.FILES:
            return name
        in_place = self._tokenizer_class != "XLMRobertaTokenizer" or self._more["front"]
        return _OF_CLASS.get(self._tokenizer_class, self.FILES[0]) if in_place else self.FILES[-1]

    def _around_added_tokens(self, tokenize, texts, matcher=None):
        matcher = matcher or self._matcher
        if matcher is None or self.trailing_space == "dropped":
            return super()._around_added_tokens(tokenize, texts, matcher)
        sections = matcher(texts)
        kept = tf.fill(tf.shape(sections.tokens), True)
        if self.trailing_space == "kept_inside":
            normalized = matcher.normalized_ids or [-2]  # -1 is a text's end
            kept = tf.reduce_any(sections.tokens[:, None] == tf.constant(normalized), 1)
        return sections.joined(*self._split(sections.strings(), kept))

    def _ids_and_offsets(self, texts):
        if self.trailing_space == "dropped":
            return self._split(texts, None)
        return self._split(texts, tf.fill(tf.shape(texts), self.trailing_space == "kept"))

    def _split(self, texts, kept):
        """Returns ids, starts and ends of texts; `kept`, bool [n]: whether a trailing space is a token."""
        stream, white, splits = self._normalizer(texts)
        row = tf.searchsorted(splits, tf.cast(stream.starts, tf.int64), "right", tf.int64) - 1
        if kept is not None:
            stream, white = _with_spaces_kept(stream, white, row, splits, kept)
        solid = tf.where(~white)[:, 0]
        marker = stream.chars == ord(METASPACE)
        new = shift(white, 1) | (row != shift(row, 1)) | marker | (tf.range(tf.size(row)) == 0)
        stream, new, solid = self._without_unknown_runs(stream.take(solid), tf.gather(new, solid), solid)
        first, total = tf.where(new)[:, 0], tf.size(solid, tf.int64)[None]
        words = tf.RaggedTensor.from_row_splits(stream.chars, tf.concat([first, total], 0), validate=False)
        row = tf.gather(row, tf.gather(solid, first))
        bare = tf.gather(stream.chars, first) != ord(METASPACE)
        strings = tf.strings.join([tf.where(bare, METASPACE, ""), tf.strings.unicode_encode(words, "UTF-8")])
        ids, *offsets = self._words.tokenize_with_offsets(strings)
        word = ids.value_rowids()
        ahead = tf.where(tf.gather(bare, word), len(METASPACE.encode()), 0)
        spans = (tf.cast(each.flat_values, tf.int32) - ahead for each in offsets)
        starts, ends = _to_characters(stream, words, word, *spans)
        origin = tf.cast(tf.gather(splits, tf.gather(row, word)), tf.int32)
        ids, nrows = tf.gather(self._ids, ids.flat_values), tf.size(texts, tf.int64)
        rows = tf.RaggedTensor.from_value_rowids(ids, tf.gather(row, word), nrows=nrows, validate=False)
        return rows, rows.with_flat_values(starts - origin), rows.with_flat_values(ends - origin)


    def _without_unknown_runs(self, stream, new, solid):
        """Keeps the first and the last of several unknown characters in a row, which are one unknown token.

        SentencePiece appends each to the text of this token, so that a long run costs the square of its length.

        Args:
            stream: the characters of words.
            new: bool [characters], where a word begins.
            solid: int64 [characters], where they are in the whole stream.
        """
        unknown = self._known.rows(stream.chars) == 0
        follows = unknown & shift(unknown, 1) & ~new
        kept = tf.where(~(follows & shift(follows, -1)))[:, 0]
        return stream.take(kept), tf.gather(new, kept), tf.gather(solid, kept)


def _with_spaces_kept(stream, white, row, splits, kept):
    """Returns the stream with "▁" for spaces that only Metaspace turns into words, and the remaining separators.

    Such spaces stand before a "▁" or, in texts that are `kept`, at the end; other white space is part of a word there,
    and in texts that are not `kept` all white space at the end is dropped.
    """
    end = tf.gather(splits, row + 1)
    is_end = tf.cast(stream.starts, tf.int64) == end - 1  # the line feed that closes each text
    space = (stream.chars == ord(" ")) & ~is_end
    # A carriage return at the end and that line feed may have been mapped as one.
    at_end = shift(is_end, -1) | (space & (tf.cast(stream.ends, tf.int64) >= end))
    here = tf.gather(kept, row)
    own = space & ((at_end & here) | (~at_end & (shift(stream.chars, -1) == ord(METASPACE))))
    solid_until = tf.math.unsorted_segment_max(
        tf.where(white, -1, tf.range(tf.size(row))), row, tf.size(splits, row.dtype) - 1
    )
    stripped = ~here & (tf.range(tf.size(row)) > tf.gather(solid_until, row))
    chars, ends = tf.where(own, ord(METASPACE), stream.chars), tf.where(own, stream.starts, stream.ends)
    return stream._replace(chars=chars, ends=ends), (space & ~own) | is_end | stripped


def _word_splitter(model, vocab_file):
    """Returns the op that splits a normalized word using the model's scores."""
    words = models.without_normalization(model).SerializeToString()
    try:
        return tf_text.SentencepieceTokenizer(words, out_type=tf.int32)
    except tf.errors.OpError as error:
        raise ValueError(
            f"tensorflow-text cannot read the SentencePiece model {vocab_file}: {error.message:.300}. Is the file "
            "complete?"
        ) from error


def _to_characters(stream, words, word, starts, ends):
    """Converts byte offsets in words to code points of all texts: int32 [tokens] each; "▁" gets the next letter's."""
    chars = stream.chars
    byte_of_char = tf.cumsum(utf8_lengths(chars), exclusive=True)
    base = tf.gather(byte_of_char, tf.gather(words.row_starts(), word))

    def char_at(byte):
        return tf.searchsorted(byte_of_char, base + tf.maximum(byte, 0), "right") - 1

    return tf.gather(stream.starts, char_at(starts)), tf.gather(stream.ends, char_at(ends - 1))
