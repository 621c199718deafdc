"""Tokenizers of SentencePiece's unigram models in graph ops (Kudo 2018), as ALBERT and XLM-RoBERTa have them."""

import functools
import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization import file_precedence, tokenizer_json_writer
from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.base_tokenizer import BaseTokenizer, TokenList
from bert_tf.tokenization.characters import shift, utf8_lengths
from bert_tf.tokenization.normalization import MARKER, Normalizer
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, case_setting, check_tokenizer_config
from bert_tf.utils.files import atomic_open

_CLASS = "AlbertTokenizer"  # what Transformers calls a tokenizer of all families but those whose row says otherwise
_OF_CLASS = {_CLASS: "spiece.model", "XLMRobertaTokenizer": "sentencepiece.bpe.model"}
_TRAILING_SPACE = ("dropped", "kept", "kept_inside")
_PENALTY = 100.0  # what keeps "9," from being one token, as in Hugging Face's tokenizers for ALBERT


class UnigramTokenizer(BaseTokenizer):
    """Text to the ids of the tokens of a SentencePiece model.

        tokenizer = UnigramTokenizer.from_directory("albert-base-v2")
        tokenizer.tokenize(["Hello world"])             # [[10975, 126]]     ▁hello ▁world

    Text is normalized as the settings say, then by the model's character map, cut at white space, and each word, with
    the mark "▁" before it, is cut into the tokens that are likeliest together.

    Attributes:
        keep_accents: whether text is spared decomposition (NFKD) and the loss of its marks.
        straight_quotes: whether `` and '' become ".
    """

    KIND: ClassVar = "unigram"
    FILES: ClassVar = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")

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
            vocab_file: the file.
            template: the family's.
            do_lower_case: whether each character is lowercased.
            keep_accents: see above.
            straight_quotes: see above.
            split_digit_comma: whether a comma after a digit is a token of its own.
            trailing_space: what becomes of a space at the end of a text or before an added token. "dropped": nothing,
                as in SentencePiece; "kept": a token "▁" of its own; "kept_inside": the same, but only before an added
                token that is matched in normalized text. tokenizer.json says which, by its pre_tokenizer.
            front: tokens in place of the control tokens with which the model begins; () leaves them.
            behind: tokens behind the model's.
            tokenizer_class: Hugging Face's name of all that.
            model_data: the bytes of the model, where `vocab_file` is the tokenizer.json from which it was made.
            added_tokens: what is found in a text before it is split; behind the vocabulary, or in it with the same ids.

        Raises:
            ValueError: it is no unigram model, a special token is missing, or an added token does not go with the
                vocabulary.
        """
        model, self._data = models.read_model(vocab_file, model_data)
        for piece in model.pieces if split_digit_comma else ():
            if len(piece.piece) > 1 and piece.piece[-1] == "," and piece.piece[-2].isdigit():
                piece.score -= _PENALTY
        first = models.first_ordinary(model) if front else 0
        scores = [(piece.piece, piece.score) for piece in model.pieces[first:]]
        scores = [(token, 0.0) for token in front] + scores + [(token, 0.0) for token in behind]
        tokens = [token for token, _ in scores]
        vocabulary = TokenList(tokens, {token: i for i, token in reversed(list(enumerate(tokens)))})
        super().__init__(vocabulary, vocab_file, template, (template.pad, template.unknown, template.mask))
        self.do_lower_case, self.keep_accents = bool(do_lower_case), bool(keep_accents)
        self.straight_quotes, self._tokenizer_class = bool(straight_quotes), tokenizer_class
        if trailing_space not in _TRAILING_SPACE:
            raise ValueError(
                f"`trailing_space` must be {', '.join(_TRAILING_SPACE[:-1])} or {_TRAILING_SPACE[-1]}. Received: "
                f"{trailing_space!r}; correct it."
            )
        self.trailing_space = trailing_space
        self._more = {"split_digit_comma": split_digit_comma, "front": list(front), "behind": list(behind)}
        blob = model.normalizer_spec.precompiled_charsmap
        mapping = models.character_map(blob, self.vocab_file)
        # Not as attributes, of which tf.Module would track each score.
        self._whole = functools.partial(tokenizer_json_writer.unigram_json, self, scores, blob)
        self._normalizer = Normalizer(mapping, self.do_lower_case, self.keep_accents, self.straight_quotes)
        ids = np.arange(len(model.pieces), dtype=np.int32) + len(front) - first
        ids[:first] = self.unk_id
        with tf.init_scope(), tf.device("CPU:0"):
            self._ids, self._words = tf.constant(ids), _word_splitter(model, self.vocab_file)
        self._take_added_tokens(added_tokens)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, CONFIG_FILE)
        settings = dict(family.tokenizing_by(cls.KIND))
        own_class = settings.get("tokenizer_class", _CLASS) if settings else None
        check_tokenizer_config(config_path, config, cls.KIND, own_class)
        usual = settings.get("do_lower_case", False)
        settings["do_lower_case"] = case_setting(config_path, config, do_lower_case, usual)
        settings["keep_accents"] = config.get("keep_accents", settings.get("keep_accents", True))
        known = (("keep_accents", (True, False)), ("remove_space", (None, True)), ("add_prefix_space", (None, True)))
        for key, values in known:
            if settings.get(key, config.get(key)) not in values:
                raise ValueError(
                    f"{config_path}: {key} must be {' or '.join(json.dumps(v) for v in values if v is not None)}. "
                    f"Received: {json.dumps(config.get(key))}; such text is read in no other way here."
                )
        return settings

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        """Builds the tokenizer, and its SentencePiece model: the family's, as far as it can be."""
        settings |= file_precedence.unigram_settings(whole, directory, do_lower_case)
        scores, unknown = whole.model["vocab"], whole.model.get("unk_id")
        tokens = whole.vocabulary(template)
        if type(unknown) is not int or tokens[unknown : unknown + 1] != [template.unknown]:
            raise ValueError(
                f"{whole.path}: model.unk_id must be the id of {template.unknown}. Received: {unknown}; take the "
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
        return [token if token in added else token.replace(MARKER, " ") for token in self.vocab]

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
        settings = {"do_lower_case": self.do_lower_case, "keep_accents": self.keep_accents}
        return self._tokenizer_class, settings | self.special_tokens | added_tokens_config(self.added_tokens)

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
        limits = tf.tensor_scatter_nd_update(made.limits, first[:, None], tf.gather(made.limits, last))
        flat = made.chars.flat_values
        flat = tf.tensor_scatter_nd_update(flat, first[:, None], tf.where(runs, ord(MARKER), tf.gather(flat, first)))
        return made._replace(chars=made.chars.with_flat_values(flat), limits=limits).keep(begins)

    @property
    def _model_name(self):
        """The name of the SentencePiece model when it is saved: Hugging Face's, unless its own reader would put the
        tokens in other positions."""
        name = os.path.basename(self.vocab_file)
        if name in self.FILES:
            return name
        in_place = self._tokenizer_class == "AlbertTokenizer" or self._more["front"]
        return _OF_CLASS.get(self._tokenizer_class, self.FILES[0]) if in_place else self.FILES[-1]

    def _around_added_tokens(self, tokenize, texts):
        if self._matcher is None or self.trailing_space == "dropped":
            return super()._around_added_tokens(tokenize, texts)
        sections = self._matcher(texts)
        kept = tf.fill(tf.shape(sections.tokens), True)
        if self.trailing_space == "kept_inside":
            normalized = [token.id for token in self.added_tokens if token.normalized] or [-2]  # -1 is a text's end
            kept = tf.reduce_any(sections.tokens[:, None] == tf.constant(normalized), 1)
        return sections.joined(*self._split(sections.strings(), kept))

    def _ids_and_offsets(self, texts):
        if self.trailing_space == "dropped":
            return self._split(texts, None)
        return self._split(texts, tf.fill(tf.shape(texts), self.trailing_space == "kept"))

    def _split(self, texts, kept):
        """Returns ids, starts, limits of texts; `kept`, bool [n]: in which of them a space at the end is a token."""
        stream, white, splits = self._normalizer(texts)
        row = tf.searchsorted(splits, tf.cast(stream.starts, tf.int64), "right", tf.int64) - 1
        if kept is not None:
            stream, white = _with_spaces_kept(stream, white, row, splits, kept)
        solid = tf.where(~white)[:, 0]
        marker = stream.chars == ord(MARKER)
        new = shift(white, 1) | (row != shift(row, 1)) | marker | (tf.range(tf.size(row)) == 0)
        first = tf.where(tf.gather(new, solid))[:, 0]
        stream, ends = stream.take(solid), tf.size(solid, tf.int64)[None]
        words = tf.RaggedTensor.from_row_splits(stream.chars, tf.concat([first, ends], 0), validate=False)
        row = tf.gather(row, tf.gather(solid, first))
        bare = tf.gather(stream.chars, first) != ord(MARKER)
        strings = tf.strings.join([tf.where(bare, MARKER, ""), tf.strings.unicode_encode(words, "UTF-8")])
        ids, starts, ends = self._words.tokenize_with_offsets(strings)
        word = ids.value_rowids()
        ahead = tf.where(tf.gather(bare, word), len(MARKER.encode()), 0)
        spans = (tf.cast(offsets.flat_values, tf.int32) - ahead for offsets in (starts, ends))
        starts, limits = _to_characters(stream, words, word, *spans)
        origin = tf.cast(tf.gather(splits, tf.gather(row, word)), tf.int32)
        ids, nrows = tf.gather(self._ids, ids.flat_values), tf.size(texts, tf.int64)
        rows = tf.RaggedTensor.from_value_rowids(ids, tf.gather(row, word), nrows=nrows, validate=False)
        return rows, rows.with_flat_values(starts - origin), rows.with_flat_values(limits - origin)


def _with_spaces_kept(stream, white, row, splits, kept):
    """Returns the stream in which spaces that Metaspace alone makes words of are "▁", and what still separates words.

    Such spaces stand before a "▁" or, in texts that are `kept`, at the end; other white space is part of a word there,
    and in texts that are not `kept` all white space at the end is dropped.
    """
    limit = tf.gather(splits, row + 1)
    is_end = tf.cast(stream.starts, tf.int64) == limit - 1  # the line feed that closes each text
    space = (stream.chars == ord(" ")) & ~is_end
    # A carriage return at the end and that line feed may have been mapped as one.
    at_end = shift(is_end, -1) | (space & (tf.cast(stream.limits, tf.int64) >= limit))
    here = tf.gather(kept, row)
    own = space & ((at_end & here) | (~at_end & (shift(stream.chars, -1) == ord(MARKER))))
    solid_until = tf.math.unsorted_segment_max(
        tf.where(white, -1, tf.range(tf.size(row))), row, tf.size(splits, row.dtype) - 1
    )
    stripped = ~here & (tf.range(tf.size(row)) > tf.gather(solid_until, row))
    chars, limits = tf.where(own, ord(MARKER), stream.chars), tf.where(own, stream.starts, stream.limits)
    return stream._replace(chars=chars, limits=limits), (space & ~own) | is_end | stripped


def _word_splitter(model, vocab_file):
    """Returns the op that splits a word, which is normalized already, by the model's scores."""
    words = models.without_normalization(model).SerializeToString()
    try:
        return tf_text.SentencepieceTokenizer(words, out_type=tf.int32)
    except tf.errors.OpError as error:
        raise ValueError(
            f"{vocab_file} must be a SentencePiece model that tensorflow-text takes. Received: {error.message:.300}; "
            "is the file whole?"
        ) from error


def _to_characters(stream, words, word, starts, ends):
    """Turns bytes of words into code points of all texts: int32 [tokens] twice; "▁" alone has its first letter's."""
    chars = stream.chars
    byte_of_char = tf.cumsum(utf8_lengths(chars), exclusive=True)
    base = tf.gather(byte_of_char, tf.gather(words.row_starts(), word))

    def char_at(byte):
        return tf.searchsorted(byte_of_char, base + tf.maximum(byte, 0), "right") - 1

    return tf.gather(stream.starts, char_at(starts)), tf.gather(stream.limits, char_at(ends - 1))
