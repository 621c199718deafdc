"""Extracts features of a frozen encoder, per token or pooled per text."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.pooling import Layers, Pooling, check_layers, check_pooling, join_layers, pool
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.special_tokens import add_special_tokens
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.text_inputs import text_list
from bert_tf.utils.token_counts import TokenCountLog

Texts = Sequence[str] | Sequence[tuple[str, str]]

_CHUNK = 10_000  # texts tokenized at a time
_TOKENS_CHUNK = 512  # the same, if the features of all tokens are kept
_TOKENS = 4096  # of a batch, padding included
_WIDTHS = 8  # widths are multiples of this
_REMEDY = "Use float32: `precision=float32`, or the dtype policy of Keras when the model is loaded."


class TokenFeatures(NamedTuple):
    """The P tokens of a text or text pair, including special tokens, and their features.

    Attributes:
        tokens: the tokens, as spelled in the vocabulary.
        values: float32 [P, D].
        starts, ends: int32 [P], the span of each token in its text, half-open, in code points; 0, 0 for special
            tokens.
        of_text: int32 [P], the text of each token: 0, or 1 for the second of a pair; -1 for special tokens.
    """

    tokens: list[str]
    values: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    of_text: np.ndarray


class Extractor:
    """Encodes texts into feature vectors with a frozen encoder; see also `bert.features`.

    Args:
        encoder: an `Encoder` with weights.
        tokenizer: its `BaseTokenizer`.
        layers: one of `names.LAYERS`, or indices of blocks (-1: the last), whose outputs are concatenated.
        pooling: one of `names.POOLINGS`, or several, whose vectors are concatenated.
        normalize: whether to divide each pooled vector by its length.
        max_seq_length: maximum sequence length, including special tokens; longer texts are truncated. If None, the
            model's maximum.
        unpooled: number of tokens at the start of each sequence that are not pooled, such as those of a prompt.
        finish: applied to the pooled vectors, float32 [n, D], before normalization, in the graph.
        name: name of the model, in warnings.

    Attributes:
        token_counts: truncated texts and unknown tokens so far, a `TokenCountLog`.

    Raises:
        ValueError: the model has no such layers or a smaller maximum length, or the pooling is unknown or not supported
            by the model.
    """

    def __init__(
        self,
        encoder,
        tokenizer,
        layers: Layers = "last",
        pooling: Pooling = "mean",
        normalize=False,
        max_seq_length=None,
        unpooled: int = 0,
        finish: Callable[[tf.Tensor], tf.Tensor] | None = None,
        name: str = "The model",
    ):
        config = encoder.config
        check_layers(layers, config.num_hidden_layers)
        check_pooling(pooling, config.is_decoder)
        self.max_seq_length = max_seq_length or config.max_length
        check_length(self.max_seq_length, tokenizer, config)
        self.tokenizer = tokenizer
        self.token_counts = TokenCountLog(name, self.max_seq_length)
        self._encoder, self._layers, self._pooling, self._normalize = encoder, layers, pooling, normalize
        self._unpooled, self._finish = unpooled, finish or tf.identity

    def __call__(self, texts: Texts) -> np.ndarray:
        """Encodes texts or text pairs; returns one vector each, float32 [n, D].

        Raises:
            ValueError: the inputs are not texts or pairs; see `text_inputs.text_list`. Or vectors are not finite.
        """
        texts = text_list(texts, pairs=True)
        with self.token_counts.together():
            parts = [self._vectors(texts[start : start + _CHUNK]) for start in range(0, len(texts), _CHUNK)]
        return np.concatenate(parts) if parts else np.zeros([0, self.width], np.float32)

    @property
    def width(self) -> int:
        """D, the dimension of the vectors."""
        return self._of_texts.structured_outputs.shape[-1]

    def tokens(self, texts: Texts) -> Iterator[TokenFeatures]:
        """Yields token features of each text or text pair, in order; raises as `__call__`."""
        texts = text_list(texts, pairs=True)
        for start in range(0, len(texts), _TOKENS_CHUNK):
            yield from self._tokens(texts[start : start + _TOKENS_CHUNK])

    @functools.cached_property
    def _of_tokens(self):
        return trace_features(self._piece_values)

    @functools.cached_property
    def _of_texts(self):
        return trace_features(self._text_values)

    def _piece_values(self, features):
        return tf.cast(join_layers(self._encoder(features, training=False), self._layers), tf.float32)

    def _text_values(self, features):
        mask = features["input_mask"]
        if self._unpooled:
            mask *= tf.cast(tf.range(tf.shape(mask)[1]) >= self._unpooled, mask.dtype)
        values = self._finish(pool(self._pooling, self._piece_values(features), mask))
        return tf.math.l2_normalize(values, -1) if self._normalize else values

    def _vectors(self, texts):
        counter = TokenCounter(self.tokenizer)
        rows = counter.pack(*map(counter.tokenize, _columns(texts)), max_seq_length=self.max_seq_length)
        self.token_counts.add(counter.counts().numpy())
        vectors = np.empty([0, 0], np.float32)
        for chosen, features in batches_by_length(self.tokenizer, rows, self.max_seq_length):
            values = self._of_texts(features).numpy()
            if not vectors.size:
                vectors = np.empty([len(texts), values.shape[-1]], np.float32)
            vectors[chosen] = values
        check_finite_outputs([vectors], _REMEDY)
        return vectors

    def _tokens(self, texts):
        counter = TokenCounter(self.tokenizer)
        ids, starts, ends = zip(*map(counter.tokenize_with_offsets, _columns(texts)), strict=True)
        rows = counter.pack(*ids, max_seq_length=self.max_seq_length)
        self.token_counts.add(counter.counts().numpy())
        vocab, found = self.tokenizer.vocab, [None] * len(texts)
        of_text = [each.with_flat_values(tf.fill(tf.shape(each.flat_values), n)) for n, each in enumerate(ids)]
        numbers = [self._pack_numbers(*each) for each in (starts, ends)] + [self._pack_numbers(*of_text, special=-1)]
        splits, all_ids = rows["input_ids"].row_splits.numpy(), rows["input_ids"].flat_values.numpy()
        for chosen, features in batches_by_length(self.tokenizer, rows, self.max_seq_length):
            whole = self._of_tokens(features).numpy()
            check_finite_outputs([np.where(features["input_mask"][:, :, None], whole, 0)], _REMEDY, chosen)
            for text, values in zip(chosen.tolist(), whole, strict=True):
                own = slice(splits[text], splits[text + 1])
                tokens = [vocab[n] for n in all_ids[own].tolist()]
                found[text] = TokenFeatures(tokens, values[: len(tokens)], *(each[own] for each in numbers))
        return found

    def _pack_numbers(self, *numbers, special=0):
        """Returns per-token numbers, int32 [all tokens], packed and truncated like the ids."""
        both = numbers if len(numbers) == 2 else (*numbers, None)
        packed = add_special_tokens(*both, self.max_seq_length, self.tokenizer.template, lambda token: special)
        return packed["input_ids"].flat_values.numpy()


def check_length(max_seq_length: int, tokenizer: BaseTokenizer, config: EncoderConfig):
    """Raises ValueError if sequences of that length have no place for a text, or more positions than the model."""
    least = tokenizer.template.special(1) + 1
    if not least <= max_seq_length <= config.max_length:
        raise ValueError(
            f"`max_seq_length` must be from {least} to {config.max_length}, the model's maximum sequence length; "
            f"got {max_seq_length}."
        )


def batches_by_length(
    tokenizer: BaseTokenizer, rows: Mapping[str, tf.RaggedTensor], max_seq_length: int
) -> Iterator[tuple[np.ndarray, dict[str, tf.Tensor]]]:
    """Yields (sequence indices, features) of sequences, grouped by similar length, the longest first.

    Args:
        tokenizer: which pads the features.
        rows: the features of all sequences, as from `TokenCounter.pack`.
        max_seq_length: maximum width of the features.
    """
    lengths = rows["input_ids"].row_lengths().numpy()
    order, start = np.argsort(-lengths, kind="stable"), 0
    while start < len(order):
        width = min(-(-int(lengths[order[start]]) // _WIDTHS) * _WIDTHS, max_seq_length)
        chosen = order[start : start + max(1, _TOKENS // width)]
        yield chosen, tokenizer.pad({name: tf.gather(row, chosen) for name, row in rows.items()}, width)
        start += len(chosen)


def _columns(texts):
    """Returns the texts as one list, or the first and second texts of pairs as two."""
    return [texts] if isinstance(texts[0], str) else [list(each) for each in zip(*texts, strict=True)]


def trace_features(function: Callable[[Mapping[str, tf.Tensor]], Any]) -> tf.types.experimental.ConcreteFunction:
    """Returns a function of a batch's features, traced once for all sequence lengths."""
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    return tf.function(function, autograph=False).get_concrete_function(specs)
