"""Where each piece of the rows that a task lays out came from, whatever the task does with texts; in the graph."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization import packing
from bert_tf.tokenization.base import BaseTokenizer


class TokenOrigins(NamedTuple):
    """Pieces, int32 [...] each.

    Attributes:
        ids: `input_ids`.
        starts, limits: where each lies in its text, half-open, in code points; 0, 0 for special ones and padding.
        of_text: which of an example's texts it is of, from 0; -1 for special ones and padding.
    """

    ids: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor
    of_text: tf.Tensor


class OriginTracker:
    """A tokenizer's face whose ids are places in a list of all pieces of the texts; `found` looks them up.

        pieces of the texts     [good, film | bad]
        input_ids of two rows   -3 0 1 -4,  -3 2 -4 -1          below 0: special pieces and padding, -1 - their ids

    A task cuts, repeats and joins such ids as it does those of pieces, so nothing needs to be known of its windows.

    Args:
        tokenizer: a `BaseTokenizer`.

    Attributes:
        template: the tokenizer's.
    """

    def __init__(self, tokenizer: BaseTokenizer):
        self.template = tokenizer.template
        self._tokenizer = tokenizer
        self._texts: list[TokenOrigins] = []  # of each text of the examples, in the order in which a task reads them

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the places of the pieces of each text (strings [n]): RaggedTensor of int32 [n, (pieces)]."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns what `Tokenizer.tokenize_with_offsets` does, with places in place of ids."""
        ids, starts, limits = self._tokenizer.tokenize_with_offsets(texts)
        before = sum(tf.size(each.ids) for each in self._texts)
        of_text = tf.fill(tf.shape(ids.flat_values), len(self._texts))
        self._texts.append(TokenOrigins(ids.flat_values, starts.flat_values, limits.flat_values, of_text))
        return ids.with_flat_values(before + tf.range(tf.size(ids.flat_values))), starts, limits

    def pack(self, ids_a, ids_b=None, max_seq_length: int = 128) -> dict[str, tf.RaggedTensor]:
        """Returns what `Tokenizer.pack` does."""
        return packing.pack_texts(ids_a, ids_b, max_seq_length, self.template, self._special)

    def pad(self, packed: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Returns what `Tokenizer.pad` does."""
        return packing.pad(packed, None, -1 - self._tokenizer.pad_id)

    def found(self, places: tf.Tensor) -> TokenOrigins:
        """Returns the pieces at some places, int32 [...], as rows of this tokenizer hold them."""
        columns = (tf.concat([*parts, [0]], 0) for parts in zip(*self._texts, strict=True))  # [0]: there may be none
        of_pieces = TokenOrigins(*(tf.gather(column, tf.maximum(places, 0)) for column in columns))
        is_special = places < 0
        instead = TokenOrigins(-1 - places, *(tf.fill(tf.shape(places), number) for number in (0, 0, -1)))
        return TokenOrigins(*(tf.where(is_special, *each) for each in zip(instead, of_pieces, strict=True)))

    def _special(self, piece):
        return -1 - self._tokenizer.vocab.index(piece)
