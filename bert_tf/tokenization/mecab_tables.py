"""The tables of a Japanese tokenizer: words by MeCab, which WordPiece, or a vocabulary of characters, splits."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.letter_case import case_setting
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, check_tokenizer_config, read_config
from bert_tf.tokenization.vocabulary import Vocabulary
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from bert_tf.utils.files import brief

_CLASS = "BertJapaneseTokenizer"
_LONGEST_WORD = 100  # characters, in Transformers
_DICTIONARY = "unidic_lite"  # of Transformers, if mecab_kwargs names none


class MecabTables(WordPieceTables):
    """The vocabulary and the settings of BertJapaneseTokenizer with MeCab.

    Attributes:
        dictionary: MeCab's, "ipadic", "unidic_lite" or "unidic".
        subwords: what splits a word: "wordpiece", or "character" for a vocabulary of characters.
    """

    KIND: ClassVar = "mecab"
    SPACES: ClassVar = ""
    APART: ClassVar = ()
    OUTSIDE: ClassVar = "MeCab"

    def __init__(
        self,
        vocab: str | os.PathLike | Iterable[str] | Vocabulary,
        do_lower_case: bool = False,
        template: InputTemplate | None = None,
        dictionary: str = _DICTIONARY,
        subwords: str = "wordpiece",
        max_input_chars_per_word: int = _LONGEST_WORD,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Reads the vocabulary; arguments and errors are those of `mecab.MecabTokenizer`."""
        self.dictionary, self.subwords = dictionary, subwords
        super().__init__(vocab, do_lower_case, template, False, max_input_chars_per_word, added_tokens, _CLASS)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        check_tokenizer_config(os.path.join(directory, CONFIG_FILE), config, cls.KIND)
        dictionary = (config.get("mecab_kwargs") or {}).get("mecab_dic", _DICTIONARY)
        return {"dictionary": dictionary, "subwords": config.get("subword_tokenizer_type") or "wordpiece"}

    @classmethod
    def _from_vocabulary(cls, vocab_file, directory, do_lower_case, template, settings):
        path = os.path.join(directory, CONFIG_FILE)
        lower = case_setting(path, read_config(directory), do_lower_case, False)
        return cls(vocab_file, lower, template, **settings)

    def _take_added_tokens(self, tokens):
        super()._take_added_tokens(tokens)
        if matched := self.matched_tokens:
            raise ValueError(
                "A model with the words of MeCab must have no added tokens except special ones; got "
                f"{brief(matched[0].content)} with the id {matched[0].id}, which bert_tf does not support."
            )

    @property
    def splits_at_spaces(self) -> bool:
        """False: MeCab looks at the whole text."""
        return False

    @property
    def deciding_values(self) -> dict[str, Any]:
        return {"dictionary": self.dictionary, "subwords": self.subwords}

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "dictionary", "subwords", "max_input_chars_per_word")
        return self._with_added({name: getattr(self, name) for name in names})

    def _join(self, ids):
        """Joins tokens as BertJapaneseTokenizer.decode does: with spaces, which punctuation keeps."""
        return " ".join(self.vocab[number] for number in ids).replace(" ##", "").strip()

    def _tokenizer_json(self):
        return None

    def _tokenizer_config(self):
        said = {"do_lower_case": self.do_lower_case, "word_tokenizer_type": "mecab"}
        said |= {"subword_tokenizer_type": self.subwords, "mecab_kwargs": {"mecab_dic": self.dictionary}}
        said |= {name: self.special_tokens[name] for name in ("cls_token", "sep_token")}
        return _CLASS, said | added_tokens_config(self.added_tokens, self.special_added_tokens)
