"""Tracks the text and the character span that each token of a task's encoded sequences came from."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization import special_tokens
from bert_tf.tokenization.base_tokenizer import BaseTokenizer


class TokenOrigins(NamedTuple):
    """Token ids and their origins, int32 [...] each.

    Attributes:
        ids: `input_ids`.
        starts, ends: span of each token in its text, half-open, in code points; 0, 0 for special tokens and padding.
        of_text: index of the text within its example; -1 for special tokens and padding.
    """

    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    of_text: tf.Tensor


class OriginTracker:
    """Wraps a tokenizer so that its ids are indices into all tokens of the texts; `found` looks them up.

        tokens of the texts     [good, film | bad]
        input_ids of two        -3 0 1 -4,  -3 2 -4 -1          below 0: special tokens and padding, -1 - their ids

    A task truncates, repeats and joins these ids like token ids, so its windowing need not be known here.

    Args:
        tokenizer: a `BaseTokenizer`.

    Attributes:
        template: the tokenizer's input template.
    """

    def __init__(self, tokenizer: BaseTokenizer):
        self.template = tokenizer.template
        self._tokenizer = tokenizer
        self._texts: list[TokenOrigins] = []  # of each text of the examples, in the order in which a task reads them

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the indices of the tokens of each text (strings [n]): RaggedTensor of int32 [n, (tokens)]."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the results of `BaseTokenizer.tokenize_with_offsets`, with indices instead of ids."""
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(texts)
        before = sum(tf.size(each.ids) for each in self._texts)
        of_text = tf.fill(tf.shape(ids.flat_values), len(self._texts))
        self._texts.append(TokenOrigins(ids.flat_values, starts.flat_values, ends.flat_values, of_text))
        return ids.with_flat_values(before + tf.range(tf.size(ids.flat_values))), starts, ends

    def pack(self, ids_a, ids_b=None, max_seq_length: int = 128) -> dict[str, tf.RaggedTensor]:
        """Packs the sequences like `BaseTokenizer.pack`."""
        return special_tokens.add_special_tokens(ids_a, ids_b, max_seq_length, self.template, self._special)

    def pad(self, packed: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Pads the sequences like `BaseTokenizer.pad`."""
        return special_tokens.pad(packed, None, -1 - self._tokenizer.pad_id)

    def found(self, indices: tf.Tensor) -> TokenOrigins:
        """Returns the tokens for indices, int32 [...], taken from sequences of this tokenizer."""
        columns = (tf.concat([*parts, [0]], 0) for parts in zip(*self._texts, strict=True))  # [0]: there may be none
        ordinary = TokenOrigins(*(tf.gather(column, tf.maximum(indices, 0)) for column in columns))
        special = TokenOrigins(-1 - indices, *(tf.fill(tf.shape(indices), number) for number in (0, 0, -1)))
        return TokenOrigins(*(tf.where(indices < 0, *each) for each in zip(special, ordinary, strict=True)))

    def _special(self, token):
        return -1 - self._tokenizer.vocab.index(token)
