"""BertJapaneseTokenizer with MeCab in plain Python, equal to `mecab.py`, for one text at a time."""

from bert_tf.tokenization.fast_tokens import Tokens
from bert_tf.tokenization.fast_wordpiece import FastWordPiece
from bert_tf.tokenization.mecab_tables import MecabTables
from bert_tf.tokenization.mecab_words import MecabWords


class FastMecab(FastWordPiece):
    """Converts a Japanese text to token ids.

    Args:
        tables: vocabulary and settings.

    Raises:
        ValueError: fugashi or the dictionary is not installed.
    """

    def __init__(self, tables: MecabTables):
        super().__init__(tables)
        self._words = MecabWords(tables.dictionary, tables.do_lower_case, tables.subwords == "character")

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        return self.tokens(text).ids

    def tokens(self, text: str) -> Tokens:
        """Returns the ids of a text's tokens, and the span of each."""
        tokens = Tokens([], [], [])
        for word in self._words(text):
            ids, firsts, ends = self._pieces(word.text)
            tokens.ids.extend(ids)
            tokens.starts.extend(word.starts[first] for first in firsts)
            tokens.ends.extend(word.ends[end - 1] for end in ends)
        return tokens
