"""BPE with byte_fallback in plain Python, equal to that of the graph (`sentencepiece_bpe.py`), for one text at a time.

A text is merged as a whole, unless no token goes beyond the space before a word: then words are merged one by one, and
what a word becomes is computed once and remembered.
"""

import re

from bert_tf.tokenization.fast_added_tokens import Section
from bert_tf.tokenization.fast_merges import PairMerger
from bert_tf.tokenization.fast_tokens import Tokens, WordCache, solid_span
from bert_tf.tokenization.sentencepiece_bpe_tables import BYTE_TOKENS, SentencePieceBpeTables
from bert_tf.tokenization.tokenizer_json import METASPACE

_WORDS, _WHOLE = re.compile(f"{METASPACE}+[^{METASPACE}]*|[^{METASPACE}]+"), re.compile(r"(?s).+")
_BEYOND_A_WORD = re.compile(f"[^{METASPACE}]{METASPACE}")


class FastSentencePieceBpe:
    """Converts a text to the ids of a BPE vocabulary with tokens for bytes.

    Args:
        tables: vocabulary and merges.
    """

    def __init__(self, tables: SentencePieceBpeTables):
        self._tables = tables
        self._merger = PairMerger(tables.merges, tables.id_of, tables.file_size)
        self._bytes = [tables.id_of(token) for token in BYTE_TOKENS]
        single = [tables.id_of(token) for token in tables.vocab if len(token) == 1]
        self._of_bytes = {*self._bytes} - {*single}
        crosses = any(_BEYOND_A_WORD.search(left + right) for left, right in tables.merges)
        self._pattern = _WHOLE if crosses else _WORDS
        self._words = WordCache(self._word)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        words, ids = self._words, []
        for word in self._pattern.findall(text.replace(" ", METASPACE)):
            ids += words[word].ids
        return ids

    def tokens(self, text: str) -> Tokens:
        """Returns the ids of a text's tokens, and the span of each without surrounding spaces."""
        words, tokens = self._words, Tokens([], [], [])
        for match in self._pattern.finditer(text.replace(" ", METASPACE)):
            tokens.extend(words[match.group()], match.start())
        spans = [solid_span(text, *span) for span in zip(tokens.starts, tokens.ends, strict=True)]
        return Tokens(tokens.ids, [start for start, _ in spans], [end for _, end in spans])

    def section(self, section: Section) -> Tokens:
        """Returns the tokens of the text between two added tokens."""
        return self.tokens(section.text)

    def normalized(self, text: str) -> tuple[str, list[int], list[int]]:
        """Returns a text in which added tokens are looked up, and the span that each character came from."""
        return text.replace(" ", METASPACE), list(range(len(text))), list(range(1, len(text) + 1))

    def _word(self, word) -> Tokens:
        """Returns the tokens of a word, and the span of each in it."""
        ids, tables = [], self._tables
        for char in word:
            number = tables.id_of(char)
            ids += [self._bytes[byte] for byte in char.encode("utf-8")] if number is None else [number]
        tokens, at, left = Tokens(self._merger(ids), [], []), 0, 0
        for number in tokens.ids:
            tokens.starts.append(at)
            if number in self._of_bytes:
                left = (left or len(word[at].encode("utf-8"))) - 1  # bytes of this character that follow
                tokens.ends.append(at + 1)
                at += not left
            else:
                at += len(tables.vocab[number])
                tokens.ends.append(at)
        return tokens
