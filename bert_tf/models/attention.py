"""Multi-head self-attention with its residual and norm (Vaswani et al. 2017, section 3.2; BERT's modeling.py)."""

import keras
import tensorflow as tf

from bert_tf.models import fused_int8, tensor_parallel
from bert_tf.models.layers import ConfiguredLayer, Dropout, LayerNorm, Linear
from bert_tf.models.lora import Lora
from bert_tf.models.row_packing import merge_heads, unflatten

MASKED = -10000.0  # added to a score that must not count; BERT's number, and float16 can hold it


def attention_bias(input_mask, sentence_ids=None, dtype="float32", causal=False):
    """Returns what to add to attention scores so that nothing attends to padding or to a neighbour in a packed row.

        input_mask     1 1 1 1 0        sentence_ids   1 1 2 2 0             causal, for the third token:
        bias for every row of S:        bias for the first token:
                       0 0 0 0 -1e4                    0 0 -1e4 -1e4 -1e4    0 0 0 -1e4 -1e4

    Args:
        input_mask: int32 [B, S], 1 for a token and 0 for padding.
        sentence_ids: int32 [B, S], 1, 2, ... for the packed sentences and 0 for padding; [B, 1], where a row is one
            sentence; or None.
        dtype: of the result.
        causal: a token attends to itself and to those before it only.

    Returns:
        [B, 1, 1, S], or [B, 1, S, S] with sentence_ids [B, S] or causal.
    """
    if sentence_ids is None:
        visible = input_mask[:, tf.newaxis, tf.newaxis, :] > 0
    else:
        visible = sentence_ids[:, tf.newaxis, :, tf.newaxis] == sentence_ids[:, tf.newaxis, tf.newaxis, :]
        visible &= input_mask[:, tf.newaxis, tf.newaxis, :] > 0
    if causal:
        position = tf.range(tf.shape(input_mask)[1])
        visible &= position[:, tf.newaxis] >= position
    return tf.where(visible, tf.cast(0, dtype), tf.cast(MASKED, dtype))


class ResidualLayer(ConfiguredLayer):
    """The numbers and the shapes that `SelfAttention` and `TransformerBlock` have in common.

    Args: those that both take; see there.
    """

    def __init__(
        self,
        num_heads,
        attention_dropout,
        hidden_dropout,
        initializer_range,
        epsilon,
        head_width,
        lora,
        norm_first,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout_rate = attention_dropout
        self.hidden_dropout_rate = hidden_dropout
        self.initializer_range = initializer_range
        self.epsilon = epsilon
        self.head_width = head_width
        self.lora = Lora.of(lora)
        self.norm_first = norm_first
        self.norm = LayerNorm(epsilon, name="LayerNorm", dtype=self.dtype_policy, trainable=self.trainable)

    def build_linear(self, name, units, input_shape, activation="linear", lora=None):
        """Returns a `Linear` of this layer's numbers, built."""
        numbers = {"dtype": self.dtype_policy, "trainable": self.trainable}  # it is frozen where this layer is already
        layer = Linear(units, activation, self.initializer_range, lora, name=name, **numbers)
        layer.build(input_shape)
        return layer

    def compute_output_spec(self, x, bias, training=None, return_probs=False, head_mask=None):
        y = keras.KerasTensor(x.shape, self.compute_dtype)
        B, S = x.shape[:2]
        return (y, keras.KerasTensor((B, self.num_heads, S, S), self.compute_dtype)) if return_probs else y


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(ResidualLayer):
    """LayerNorm(x + dropout(W_o attend(x) + b_o)), every token attending to every token that the bias allows.

    With `norm_first`: x + dropout(W_o attend(LayerNorm(x)) + b_o).

    Args:
        num_heads: A; the width H of the input must be a multiple of it, unless `head_width` is given.
        attention_dropout, hidden_dropout: on the probabilities and on the output.
        initializer_range, epsilon: as in `EncoderConfig`.
        head_width: of a head; None: H / A.
        lora: a `Lora`, or the dict that its `to_dict` made: which of the maps have an adapter. None: none has.
        norm_first: as in `EncoderConfig`.

    Inputs: float [B, S, H]; bias [B, 1, 1 or S, S] of `attention_bias`; `head_mask` float [A], what each head's
    probabilities are multiplied by, or None. Output: float [B, S, H]; with `return_probs=True` a pair whose second is
    [B, A, S, S], after dropout as in the original, and after the mask.
    """

    def __init__(
        self,
        num_heads,
        attention_dropout=0.1,
        hidden_dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        head_width=None,
        lora=None,
        norm_first=False,
        **kwargs,
    ):
        numbers = attention_dropout, hidden_dropout, initializer_range, epsilon, head_width, lora, norm_first
        super().__init__(num_heads, *numbers, **kwargs)
        self.attention_dropout = Dropout(attention_dropout, name="attention_dropout", dtype=self.dtype_policy)
        self.hidden_dropout = Dropout(hidden_dropout, name="hidden_dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        H = input_shape[-1]
        inner = self.num_heads * (self.head_width or H // self.num_heads)
        lora = dict.fromkeys(self.lora.targets, self.lora) if self.lora else {}
        with keras.name_scope("self"):
            self.query, self.key, self.value = (
                self.build_linear(name, inner, input_shape, lora=lora.get(name)) for name in ("query", "key", "value")
            )
            self.attention_dropout.build((None, self.num_heads, None, None))
        with keras.name_scope("output"):
            self.dense = self.build_linear("dense", H, (*input_shape[:-1], inner), lora=lora.get("output"))
            self.hidden_dropout.build(input_shape)
            if not self.norm_first:
                self.norm.build(input_shape)
        if self.norm_first:
            self.norm.build(input_shape)

    def call(self, x, bias, training=None, return_probs=False, head_mask=None):
        z, shares = self.norm(x) if self.norm_first else x, []
        for layers, dense in self._parts(whole=return_probs or head_mask is not None):
            mixed, probs = self._attend(z, layers, bias, training, head_mask)
            shares.append(self._share(mixed, dense, x, training, adds=not shares))
        y = sum(shares[1:], shares[0])
        y = y if self.norm_first else self.norm(y)
        return (y, probs) if return_probs else y

    def _parts(self, whole):
        layers = self.query, self.key, self.value
        return [(layers, self.dense)] if whole else tensor_parallel.split_layers(layers, self.dense, self._width())

    def _width(self):
        return self.head_width or self.query.units // self.num_heads

    def _attend(self, z, layers, bias, training, head_mask):
        """Returns what each token gathers, float [B, S, A D] or flat, and the probabilities [B, A, S, S]."""
        D = self._width()

        def heads(values):
            return tf.transpose(unflatten(values, values.shape[-1] // D, D), [0, 2, 1, 3])  # [B, A, S, D]

        found = [heads(values) for values in _products(z, layers)]
        query, key, value = found if len(found) == 3 else tf.split(found[0], 3, axis=1)
        scores = tf.matmul(query, key, transpose_b=True)  # [B, A, S, S]
        probs = tf.nn.softmax(scores * tf.cast(D**-0.5, scores.dtype) + tf.cast(bias, scores.dtype))
        probs = self.attention_dropout(probs, training=training)
        if head_mask is not None:
            probs *= tf.cast(head_mask, probs.dtype)[:, tf.newaxis, tf.newaxis]
        mixed = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
        return merge_heads(mixed), probs

    def _share(self, mixed, dense, residual, training, adds):
        """Returns [residual +] W_o mixed + b_o."""
        if fused_int8.are_known(dense):
            return fused_int8.plus_residual(mixed, dense, residual, adds)
        share = self.hidden_dropout(dense(mixed), training=training)
        return residual + share if adds else share

    def queries_keys_values(self, x):
        """Returns the three that attention is made of, float [B, S, A D] each, the heads side by side."""
        return _products(self.norm(x) if self.norm_first else x, (self.query, self.key, self.value))


def _products(z, layers):
    if fused_int8.are_known(*layers):
        return fused_int8.products_of_same(z, layers)
    return [layer(z) for layer in layers]
