"""BPE with byte_fallback in graph ops, as SentencePiece learns it (google/sentencepiece), as in Gemma and mmBERT."""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.byte_pairs import BLANK
from bert_tf.tokenization.character_pairs import CharacterPairs
from bert_tf.tokenization.sentencepiece_bpe_tables import SentencePieceBpeTables
from bert_tf.tokenization.tokenizer_json import METASPACE


class SentencePieceBpeTokenizer(SentencePieceBpeTables, BaseTokenizer):
    """Converts text to the token ids of a BPE model with byte_fallback; see `CharacterPairs`.

        tokenizer = SentencePieceBpeTokenizer.from_directory("mmBERT-base")
        tokenizer.tokenize(["Hello world"])             # [[4521, 2134]]     Hello ▁world
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Builds the tables and the operations; arguments and errors are those of `SentencePieceBpeTables`."""
        super().__init__(vocab, merges, template, vocab_file)
        self._pairs = CharacterPairs(vocab, self.merges)
        self._take_added_tokens(added_tokens)

    def _normalized(self, texts):
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        codes = chars.flat_values
        at = tf.range(tf.size(codes)) - tf.cast(tf.gather(chars.row_starts(), chars.value_rowids()), tf.int32)
        return Normalized(chars.with_flat_values(tf.where(codes == BLANK, ord(METASPACE), codes)), at, at + 1)

    def _ids_and_offsets(self, texts):
        return self._pairs(texts)
