"""Pretraining's heads (Devlin et al. 2018, section 3.1, google-research/bert run_pretraining.py; Clark et al. 2020).

Their weights bear the names that they have in Google's checkpoints once they are built in the scope `cls`, as
`Pretrainer` does.
"""

import keras
import tensorflow as tf

from bert_tf.models.layers import LayerNorm, Linear, initializer


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(keras.layers.Layer):
    """Scores of every word piece at the masked places: LayerNorm(act(W x + b)) E^T + c, E being the word embeddings.

    The rows are gathered first: the product with the vocabulary is the dearest of the whole network, and some 15 % of
    the places need it.

    Args:
        vocab_size: V, rows of the embedding table.
        hidden_act, initializer_range, epsilon: as in `EncoderConfig`.
        width: `EncoderConfig.embedding_width` E; None: H.
        tied: `EncoderConfig.tie_word_embeddings`; if not, `output_weights` [V, E] stands in for `word_embeddings`.

    Inputs: `sequence_output` float [B, S, H]; `word_embeddings` float [V, E], best in the compute dtype already: it is
    not the head's own; `masked_lm_positions` int32 [B, M], each from 0 to S - 1. Output: float32 [B, M, V], scores
    before softmax. The product with E is made in the compute dtype, the bias added in float32, so that its gradient is
    a sum of float32 numbers.
    """

    def __init__(
        self,
        vocab_size,
        hidden_act="gelu_tanh",
        initializer_range=0.02,
        epsilon=1e-12,
        width=None,
        tied=True,
        **kwargs,
    ):
        kwargs.setdefault("name", "predictions")
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.epsilon = epsilon
        self.width = width
        self.tied = tied

    def build(self, input_shape, *_):
        width, numbers = self.width or input_shape[-1], {"dtype": self.dtype_policy, "trainable": self.trainable}
        with keras.name_scope("transform"):
            self.dense = Linear(width, self.hidden_act, self.initializer_range, name="dense", **numbers)
            self.dense.build((None, input_shape[-1]))
            self.norm = LayerNorm(self.epsilon, name="LayerNorm", **numbers)
            self.norm.build((None, width))
        if not self.tied:
            start = initializer(self.initializer_range)
            self.output_weights = self.add_weight(
                name="output_weights", shape=(self.vocab_size, width), initializer=start
            )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
        )

    def call(self, sequence_output, word_embeddings, masked_lm_positions, training=None):
        x = tf.gather(sequence_output, masked_lm_positions, batch_dims=1)  # [B, M, H]
        rows = tf.reshape(x, [-1, x.shape[-1]])  # one product of matrices, not one for every row of the batch
        rows = self.norm(self.dense(rows, training=training))
        table = word_embeddings if self.tied else self.output_weights
        logits = tf.matmul(rows, tf.cast(table, rows.dtype), transpose_b=True)  # [B * M, V]
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), tf.cast(self.output_bias, tf.float32))
        return tf.reshape(logits, tf.concat([tf.shape(masked_lm_positions), [self.vocab_size]], 0))

    def compute_output_spec(self, sequence_output, word_embeddings, masked_lm_positions, training=None):
        return keras.KerasTensor((*masked_lm_positions.shape, self.vocab_size), "float32")

    def get_config(self):
        return super().get_config() | {
            "vocab_size": self.vocab_size,
            "hidden_act": self.hidden_act,
            "initializer_range": self.initializer_range,
            "epsilon": self.epsilon,
            "width": self.width,
            "tied": self.tied,
        }


@keras.saving.register_keras_serializable("bert_tf")
class NextSentenceHead(keras.layers.Layer):
    """Two scores for each pair of texts: 0, the second follows the first; 1, it was drawn at random, or they swapped.

    Args:
        initializer_range: standard deviation of the weights' start.

    Input: pooled output, float [..., H]. Output: float32 [..., 2], scores before softmax.
    Weights: `output_weights` [2, H], `output_bias` [2].
    """

    def __init__(self, initializer_range=0.02, **kwargs):
        kwargs.setdefault("name", "seq_relationship")
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, input_shape):
        start = initializer(self.initializer_range)
        self.output_weights = self.add_weight(name="output_weights", shape=(2, input_shape[-1]), initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(2,), initializer="zeros", autocast=False)

    def call(self, pooled_output):
        weights = tf.cast(self.output_weights, pooled_output.dtype)
        logits = tf.cast(tf.einsum("...h,lh->...l", pooled_output, weights), tf.float32)
        return logits + tf.cast(self.output_bias, tf.float32)

    def compute_output_spec(self, pooled_output):
        return keras.KerasTensor((*pooled_output.shape[:-1], 2), "float32")

    def get_config(self):
        return super().get_config() | {"initializer_range": self.initializer_range}


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedTokenHead(keras.layers.Layer):
    """A score for every piece: is it what the text had, or was it replaced (ELECTRA, Clark et al. 2020, section 2).

    Args:
        hidden_act, initializer_range: as in `EncoderConfig`.

    Input: `sequence_output` float [B, S, H]. Output: float32 [B, S], scores before a sigmoid; above 0: replaced.
    Weights: `dense/kernel` [H, H], `dense/bias`, `output_weights` [1, H], `output_bias` [1].
    """

    def __init__(self, hidden_act="gelu", initializer_range=0.02, **kwargs):
        kwargs.setdefault("name", "replaced_tokens")
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range

    def build(self, input_shape):
        width, numbers = input_shape[-1], {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.dense = Linear(width, self.hidden_act, self.initializer_range, name="dense", **numbers)
        self.dense.build(input_shape)
        start = initializer(self.initializer_range)
        self.output_weights = self.add_weight(name="output_weights", shape=(1, width), initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(1,), initializer="zeros", autocast=False)

    def call(self, sequence_output, training=None):
        x = self.dense(sequence_output, training=training)
        weights = tf.cast(self.output_weights[0], x.dtype)
        return tf.cast(tf.linalg.matvec(x, weights), tf.float32) + tf.cast(self.output_bias, tf.float32)

    def compute_output_spec(self, sequence_output, training=None):
        return keras.KerasTensor(sequence_output.shape[:-1], "float32")

    def get_config(self):
        return super().get_config() | {"hidden_act": self.hidden_act, "initializer_range": self.initializer_range}


def build_in_cls(head: keras.layers.Layer, width: int) -> keras.layers.Layer:
    """Builds a head for float [B, S, width] in google-research/bert's scope "cls", and returns it."""
    with keras.name_scope("cls"):
        head.build((None, None, width))
    return head
