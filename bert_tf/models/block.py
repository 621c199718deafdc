"""One Transformer block (Vaswani et al. 2017, sections 3.1 and 3.3): attention, then a feed-forward layer."""

import keras

from bert_tf.models.attention import ResidualLayer, SelfAttention
from bert_tf.models.layers import Dropout


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(ResidualLayer):
    """Transformer block: y = SelfAttention(x); LayerNorm(y + dropout(W_2 act(W_1 y + b_1) + b_2)).

    With `norm_first`: y + dropout(W_2 act(W_1 LayerNorm(y) + b_1) + b_2).

    Args:
        intermediate_size, hidden_act: as in `EncoderConfig`.
        num_heads and all others: as in `ResidualLayer`.

    Inputs: float [B, S, H]; bias of `attention_bias`; `head_mask` as in `SelfAttention`. Output: float [B, S, H]; with
    `return_probs=True`, a pair whose second item is the attention probabilities [B, A, S, S].
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
        **kwargs,
    ):
        settings = attention_dropout, hidden_dropout, initializer_range, epsilon, head_width, lora, norm_first
        super().__init__(num_heads, *settings, **kwargs)
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        policy = {"dtype": self.dtype_policy, "trainable": self.trainable}
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
            name=f"layer_{index}",
            **kwargs,
        )

    def build(self, input_shape):
        inner_shape = (*input_shape[:-1], self.intermediate_size)
        self.attention.build(input_shape)
        with keras.name_scope("intermediate"):
            self.intermediate = self.build_linear("dense", self.intermediate_size, input_shape, self.hidden_act)
            if self.norm_first:
                self.norm.build(input_shape)
        with keras.name_scope("output"):
            self.dense = self.build_linear("dense", input_shape[-1], inner_shape)
            self.dropout.build(input_shape)
            if not self.norm_first:
                self.norm.build(input_shape)

    def call(self, x, bias, training=None, return_probs=False, head_mask=None):
        y = self.attention(x, bias, training=training, return_probs=return_probs, head_mask=head_mask)
        y, probs = y if return_probs else (y, None)
        z = self.norm(y) if self.norm_first else y
        z = y + self.dropout(self.dense(self.intermediate(z)), training=training)
        z = z if self.norm_first else self.norm(z)
        return (z, probs) if return_probs else z
