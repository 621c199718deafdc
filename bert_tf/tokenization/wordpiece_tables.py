"""The tables of Google's WordPiece tokenizer: vocab.txt or tokenizer.json, and its settings."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import characters, decoding, file_precedence, tokenizer_json_writer
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.letter_case import case_settings, resolve_case_and_accents
from bert_tf.tokenization.token_edges import TokenEdges
from bert_tf.tokenization.tokenizer_config import read_config
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, warn_of_capitals
from bert_tf.utils.names import SPECIAL_TOKENS


class WordPieceTables(TokenizerTables):
    """The vocabulary and the settings of a WordPiece tokenizer.

    Attributes:
        strip_accents: whether text is decomposed and stripped of accents.
        max_input_chars_per_word: a longer word is one [UNK].
        cls_id, sep_id: ids of the first and of the last special token of a sequence, [CLS] and [SEP], or None.
    """

    KIND: ClassVar = "wordpiece"
    FILES: ClassVar = (VOCAB_FILE,)
    SPACES: ClassVar = r"[ \t\n\r\p{Zs}]{32,}"
    APART: ClassVar = characters.CJK

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str] | Vocabulary,
        do_lower_case: bool = True,
        template: InputTemplate | None = None,
        strip_accents: bool | None = None,
        max_input_chars_per_word: int | None = None,
        added_tokens: Sequence[AddedToken] = (),
        tokenizer_class: str = "BertTokenizer",
    ):
        """Reads the vocabulary; arguments and errors are those of `wordpiece.WordPieceTokenizer`."""
        vocabulary = vocab if isinstance(vocab, Vocabulary) else Vocabulary.read(vocab, template)
        if max_input_chars_per_word is not None:
            vocabulary = dataclasses.replace(vocabulary, longest_word=int(max_input_chars_per_word))
        path = vocab if isinstance(vocab, (str, os.PathLike)) else None
        self.max_input_chars_per_word = vocabulary.longest_word
        template = template or InputTemplate()
        super().__init__(vocabulary, path, template, (template.pad, template.unknown, template.mask))
        self._tokenizer_class = tokenizer_class
        self.do_lower_case = bool(do_lower_case)
        self.strip_accents = self.do_lower_case if strip_accents is None else bool(strip_accents)
        if self.strip_accents and not self.do_lower_case:
            raise ValueError("`strip_accents` requires `do_lower_case`, because only lowercased text is stripped.")
        ends = template.before[:1], template.after[-1:]
        self.cls_id, self.sep_id = (vocabulary.id_of(end[0]) if end else None for end in ends)
        self._take_added_tokens(added_tokens)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        return dict(family.tokenizing_by(cls.KIND))

    @classmethod
    def _from_vocabulary(cls, vocab_file, directory, do_lower_case, template, settings):
        lower, strip_accents = resolve_case_and_accents(directory, do_lower_case, settings.get("tokenizer_class"))
        tokenizer = cls(vocab_file, lower, template, strip_accents, **settings)
        if do_lower_case is None and "do_lower_case" not in read_config(directory):
            warn_of_capitals(tokenizer.vocab, tokenizer.vocab_file)
        return tokenizer

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        own_class = settings.get("tokenizer_class")
        lower, strip_accents = file_precedence.case_and_accents(whole, directory, do_lower_case, own_class)
        vocabulary = Vocabulary.of_whole(whole, template)
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = Vocabulary.read(path, template)
            lines = [token if other.id_of(token) == i else "" for i, token in enumerate(other.tokens)]
            file_precedence.warn_of_vocabulary(whole.path, vocabulary.tokens[: whole.own], path, lines)
        tokenizer = cls(vocabulary, lower, template, strip_accents, **settings)
        tokenizer.vocab_file = whole.path
        return tokenizer

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens, without those that begin or end a text, which BERT does not have."""
        return {name: token for name, token in super().special_tokens.items() if name not in ("bos_token", "eos_token")}

    @property
    def _mask_lstrip(self):
        return self._tokenizer_class == "MPNetTokenizer"

    @property
    def token_edges(self) -> TokenEdges:
        """Which tokens continue a word: those that begin with "##"."""
        continues = np.array([token.startswith("##") for token in self.vocab])
        return TokenEdges(continues, np.zeros_like(continues))

    @property
    def reserved_tokens(self) -> set[str]:
        """The tokens that represent no text; "" is that of an id without a token."""
        return {*super().reserved_tokens, *SPECIAL_TOKENS, ""}

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "strip_accents", "max_input_chars_per_word")
        own = {} if self._tokenizer_class == "BertTokenizer" else {"tokenizer_class": self._tokenizer_class}
        return self._with_added({name: getattr(self, name) for name in names} | own)

    def _join(self, ids):
        return decoding.join_wordpieces([self.vocab[number] for number in ids])

    def _write_vocabulary(self, directory):
        self._vocabulary.save(os.path.join(directory, VOCAB_FILE))

    def _tokenizer_json(self):
        return tokenizer_json_writer.wordpiece_json(self)

    def _tokenizer_config(self):
        settings = case_settings(self.do_lower_case, self.strip_accents)
        settings |= added_tokens_config(self.added_tokens, self.special_added_tokens)
        if self.template.pieces(2) != InputTemplate().pieces(2):
            settings |= {name: self.special_tokens[name] for name in ("cls_token", "sep_token")}
        return self._tokenizer_class, settings
