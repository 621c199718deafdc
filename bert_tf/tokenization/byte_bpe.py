"""Byte-level BPE in graph ops, as in GPT-2 (Radford et al. 2019, section 2.2; openai/gpt-2), RoBERTa and ModernBERT.

A text is split into words, each including the space before it. The bytes of a word are its first tokens; then adjacent
tokens are merged in the order in which the merges were learned. The vocabulary is read from vocab.json
and merges.txt, or from tokenizer.json.
"""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.byte_bpe_tables import ByteBpeTables
from bert_tf.tokenization.byte_pairs import BytePairs
from bert_tf.tokenization.composition import Composer

_NO_SPACE = r"(?s)[^ ].*"  # a text that begins with something else than a space


class ByteBpeTokenizer(ByteBpeTables, BaseTokenizer):
    """Converts text to byte-level BPE ids, identical to GPT-2's and RoBERTa's; see `BytePairs`.

        tokenizer = ByteBpeTokenizer.from_directory("roberta-base")
        tokenizer.tokenize(["Hello world"])             # [[31414, 232]]     Hello Ġworld
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        add_prefix_space: bool = False,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
        nfc: bool = False,
        tokenizer_class: str = "RobertaTokenizer",
    ):
        """Builds the tables and the operations; arguments and errors are those of `ByteBpeTables`."""
        super().__init__(vocab, merges, template, add_prefix_space, vocab_file, (), nfc, tokenizer_class)
        self._normalized = Composer() if nfc else None
        self._pairs = BytePairs(vocab, merges)
        self._take_added_tokens(added_tokens)

    def _ids_and_offsets(self, texts):
        if not self.nfc:
            return self._split(texts)
        made = self._normalized(texts)
        ids, *spans = self._split(tf.strings.unicode_encode(made.chars, "UTF-8"))
        first = tf.gather(made.chars.row_starts(), ids.value_rowids())
        spans = made.origins(*(tf.cast(each.flat_values, tf.int64) + first for each in spans))
        return ids, *map(ids.with_flat_values, spans)

    def _split(self, texts):
        if not self.add_prefix_space:
            return self._pairs(texts)
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
        spaced = tf.strings.regex_full_match(texts, _NO_SPACE)
        ids, starts, ends = self._pairs(tf.strings.join([tf.where(spaced, " ", ""), texts]))
        moved = tf.gather(tf.cast(spaced, tf.int32), ids.value_rowids())
        return ids, *(ids.with_flat_values(tf.maximum(each.flat_values - moved, 0)) for each in (starts, ends))
