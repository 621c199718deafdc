"""One Transformer block (Vaswani et al. 2017, sections 3.1 and 3.3): attention, then a feed-forward layer."""

import keras

from bert_tf.models.attention import SelfAttention
from bert_tf.models.layers import Dropout, ResidualLayer, gated


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(ResidualLayer):
    """Transformer block: y = SelfAttention(x); LayerNorm(y + dropout(W_2 act(W_1 y + b_1) + b_2)).

    With `norm_first`: y + dropout(W_2 act(W_1 LayerNorm(y) + b_1) + b_2). If `gated_mlp`, W_1 has twice as many
    columns, and act(W_1 y + b_1) is replaced by act(a) * b, where a and b are the halves of W_1 y + b_1.

    Args:
        intermediate_size, hidden_act, gated_mlp, attention_bias, mlp_bias, mlp_input_bias: as in `EncoderConfig`.
        num_heads and all others: as in `ResidualLayer`.

    Inputs: float [B, S, H]; bias of `attention_bias`; `head_mask`, `view`, `relative` and `queries` as in
    `SelfAttention`. Output: float [B, S, H]; with `return_probs=True`, a pair whose second item is the attention
    probabilities [B, A, S, S].
    """

    def __init__(
        self,
        num_heads,
        intermediate_size,
        hidden_act="gelu_tanh",
        attention_dropout=0.1,
        hidden_dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        head_width=None,
        lora=None,
        norm_first=False,
        gated_mlp=False,
        attention_bias=True,
        mlp_bias=True,
        norm_bias=True,
        normalizes_input=True,
        pos_att_type=(),
        mlp_input_bias=True,
        **kwargs,
    ):
        settings = attention_dropout, hidden_dropout, initializer_range, epsilon, head_width, lora, norm_first
        super().__init__(num_heads, *settings, mlp_bias, norm_bias, normalizes_input, pos_att_type, **kwargs)
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.gated_mlp, self.attention_bias, self.mlp_bias = gated_mlp, attention_bias, mlp_bias
        self.mlp_input_bias = mlp_input_bias
        policy = {"dtype": self.dtype_policy, "trainable": self.trainable}
        settings += attention_bias, norm_bias, normalizes_input, pos_att_type
        self.attention = SelfAttention(num_heads, *settings, name="attention", **policy)
        self.dropout = Dropout(hidden_dropout, name="dropout", dtype=self.dtype_policy)

    @classmethod
    def of(cls, config, index, **kwargs):
        """Returns the block with index `index`, from 0, of an `EncoderConfig`."""
        return cls(
            config.heads_of(index),
            config.intermediate_size,
            config.hidden_act,
            config.attention_probs_dropout_prob,
            config.hidden_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            config.hidden_size // config.num_attention_heads,
            config.lora,
            config.norm_first,
            config.gated_mlp,
            config.attention_bias,
            config.mlp_bias,
            config.norm_bias,
            index > 0 or config.first_attention_norm,
            config.pos_att_type,
            config.mlp_input_bias,
            name=f"layer_{index}",
            **kwargs,
        )

    def build(self, input_shape):
        inner_shape = (*input_shape[:-1], self.intermediate_size)
        self.attention.build(input_shape)
        with keras.name_scope("intermediate"):
            units, act = self.intermediate_size, self.hidden_act
            units, act = (2 * units, "linear") if self.gated_mlp else (units, act)
            use_bias = self.mlp_bias and self.mlp_input_bias
            self.intermediate = self.build_linear("dense", units, input_shape, act, use_bias=use_bias)
            if self.norm_first:
                self.norm.build(input_shape)
        with keras.name_scope("output"):
            self.dense = self.build_linear("dense", input_shape[-1], inner_shape)
            self.dropout.build(input_shape)
            if not self.norm_first:
                self.norm.build(input_shape)

    def call(
        self, x, bias, training=None, return_probs=False, head_mask=None, view=None, relative=None, queries=None
    ):
        options = {"return_probs": return_probs, "head_mask": head_mask, "view": view, "relative": relative}
        y = self.attention(x, bias, training=training, queries=queries, **options)
        y, probs = y if return_probs else (y, None)
        z = self.norm(y) if self.norm_first else y
        z = y + self.dropout(self.dense(self._inner(z, training)), training=training)
        z = z if self.norm_first else self.norm(z)
        return (z, probs) if return_probs else z

    def _inner(self, x, training):
        """Returns the activations between the two linear maps, float [B, S, intermediate_size]."""
        x = self.intermediate(x)
        return gated(x, self.hidden_act, training) if self.gated_mlp else x
