"""Pretraining heads (Devlin et al. 2018, section 3.1, google-research/bert run_pretraining.py; Clark et al. 2020).

Built in the scope `cls`, as in `Pretrainer`, their weights have the same names as in Google's checkpoints.
"""

import keras
import tensorflow as tf

from bert_tf.models.embeddings import restarting_positions
from bert_tf.models.layers import ConfiguredLayer, LayerNorm, Linear, initializer


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Masked-LM head: vocabulary logits at the masked positions, LayerNorm(act(W x + b)) T^T + c.

    T [V, E] is the table of word embeddings.

    The masked positions are gathered first: the product with the vocabulary is the most expensive of the whole network,
    and only about 15% of the positions need it.

    Args:
        vocab_size: V, rows of the embedding table.
        hidden_act, initializer_range, epsilon: as in `EncoderConfig`.
        width: `EncoderConfig.embedding_width` E; If None, H.
        use_bias, norm_bias: whether the linear map W and the LayerNorm have biases.
        tied: `EncoderConfig.tie_word_embeddings`; if not, `output_weights` [V, E] stands in for `word_embeddings`.
        decoder_bias: whether the bias c, `output_bias`, is added.
        positions: number of rows P of the table of the enhanced mask decoder, `position_embeddings` [P, H]. If None,
            there is no decoder.

    Inputs: `sequence_output` float [B, S, H], as from `input_of`; `word_embeddings` float [V, E], preferably in the
    compute dtype, which does not belong to the head; `masked_lm_positions` int32 [B, M], each from 0 to S - 1. Output:
    float32 [B, M, V] logits. The product with T is computed in the compute dtype and the bias is added in float32, so
    that its gradient is a sum of float32 numbers.
    """

    def __init__(
        self,
        vocab_size,
        hidden_act="gelu_tanh",
        initializer_range=0.02,
        epsilon=1e-12,
        width=None,
        tied=True,
        use_bias=True,
        norm_bias=True,
        positions=None,
        decoder_bias=True,
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
        self.use_bias, self.norm_bias, self.positions = use_bias, norm_bias, positions
        self.decoder_bias = decoder_bias

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the head of an `EncoderConfig`."""
        c = config
        act = c.classifier_act if c.head_norm else c.hidden_act
        shape = c.vocab_size, act, c.initializer_range, c.layer_norm_eps, c.embedding_size, c.tie_word_embeddings
        positions = c.max_position_embeddings if c.enhanced_mask_decoder else None
        return cls(*shape, c.classifier_bias, c.norm_bias, positions, c.decoder_bias, **kwargs)

    def build(self, input_shape, *_):
        width, settings = self.width or input_shape[-1], {"dtype": self.dtype_policy, "trainable": self.trainable}
        with keras.name_scope("transform"):
            map_ = width, self.hidden_act, self.initializer_range, None, self.use_bias
            self.dense = Linear(*map_, name="dense", **settings)
            self.dense.build((None, input_shape[-1]))
            self.norm = LayerNorm(self.epsilon, self.norm_bias, name="LayerNorm", **settings)
            self.norm.build((None, width))
        start = initializer(self.initializer_range)
        if self.positions:
            shape = self.positions, input_shape[-1]
            self.position_embeddings = self.add_weight(name="position_embeddings", shape=shape, initializer=start)
        if not self.tied:
            self.output_weights = self.add_weight(
                name="output_weights", shape=(self.vocab_size, width), initializer=start
            )
        if self.decoder_bias:
            self.output_bias = self.add_weight(
                name="output_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
            )

    def input_of(self, encoder, outputs, inputs, training=None):
        """Returns what the head reads, float [B, S, H]: the encoder's output, or what the mask decoder makes of it.

        Args:
            encoder: whose `inputs` and `outputs` are given.
        """
        if not self.positions:
            return outputs["sequence_output"]
        return encoder.decoded(outputs, inputs, tf.convert_to_tensor(self.position_embeddings), training)

    def call(self, sequence_output, word_embeddings, masked_lm_positions, training=None):
        x = tf.gather(sequence_output, masked_lm_positions, batch_dims=1)  # [B, M, H]
        rows = tf.reshape(x, [-1, x.shape[-1]])  # one product of matrices, not one for every row of the batch
        rows = self.norm(self.dense(rows, training=training))
        table = word_embeddings if self.tied else self.output_weights
        logits = tf.matmul(rows, tf.cast(table, rows.dtype), transpose_b=True)  # [B * M, V]
        logits = tf.cast(logits, tf.float32)
        if self.decoder_bias:
            logits = tf.nn.bias_add(logits, tf.cast(self.output_bias, tf.float32))
        return tf.reshape(logits, tf.concat([tf.shape(masked_lm_positions), [self.vocab_size]], 0))

    def compute_output_spec(self, sequence_output, word_embeddings, masked_lm_positions, training=None):
        return keras.KerasTensor((*masked_lm_positions.shape, self.vocab_size), "float32")


@keras.saving.register_keras_serializable("bert_tf")
class NextSentenceHead(ConfiguredLayer):
    """Next-sentence head: logits for each text pair (0: the second follows the first; 1: it is random or swapped).

    Args:
        initializer_range: standard deviation of the initializer.

    Input: pooled output, float [..., H]. Output: float32 [..., 2], logits.
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
        # tf.einsum of TensorFlow 2.21, with an ellipsis, is wrong in float16 on CPUs that compute in it.
        logits = tf.cast(tf.matmul(pooled_output, weights, transpose_b=True), tf.float32)
        return logits + tf.cast(self.output_bias, tf.float32)

    def compute_output_spec(self, pooled_output):
        return keras.KerasTensor((*pooled_output.shape[:-1], 2), "float32")


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedTokenHead(ConfiguredLayer):
    """Replaced-token detection head: a logit per token, original or replaced (ELECTRA, Clark et al. 2020, section 2).

    Args:
        hidden_act, initializer_range, epsilon, norm_bias: as in `EncoderConfig`.
        context: `EncoderConfig.replaced_token_context`: x_i becomes LayerNorm(x_i + x_0) first.

    Inputs: `sequence_output` float [B, S, H]; `sentence_ids` of packed sequences, as in `Encoder`: x_0 is the first
    token of each example. Output: float32 [B, S], logits; above 0 means replaced.
    Weights: `dense/kernel` [H, H], `dense/bias`, `output_weights` [1, H], `output_bias` [1]; with context, those of
    `LayerNorm`.
    """

    def __init__(
        self, hidden_act="gelu", initializer_range=0.02, epsilon=1e-12, norm_bias=True, context=False, **kwargs
    ):
        kwargs.setdefault("name", "replaced_tokens")
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.epsilon, self.norm_bias, self.context = epsilon, norm_bias, context

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the head of an `EncoderConfig`."""
        c = config
        settings = c.initializer_range, c.layer_norm_eps, c.norm_bias, c.replaced_token_context
        return cls(c.hidden_act, *settings, **kwargs)

    def build(self, input_shape):
        width, settings = input_shape[-1], {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.dense = Linear(width, self.hidden_act, self.initializer_range, name="dense", **settings)
        self.dense.build(input_shape)
        if self.context:
            self.norm = LayerNorm(self.epsilon, self.norm_bias, name="LayerNorm", **settings)
            self.norm.build(input_shape)
        start = initializer(self.initializer_range)
        self.output_weights = self.add_weight(name="output_weights", shape=(1, width), initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(1,), initializer="zeros", autocast=False)

    def call(self, sequence_output, sentence_ids=None, training=None):
        x = sequence_output
        if self.context:
            x = self.norm(x + first_tokens(x, sentence_ids))
        x = self.dense(x, training=training)
        weights = tf.cast(self.output_weights[0], x.dtype)
        return tf.cast(tf.linalg.matvec(x, weights), tf.float32) + tf.cast(self.output_bias, tf.float32)

    def compute_output_spec(self, sequence_output, sentence_ids=None, training=None):
        return keras.KerasTensor(sequence_output.shape[:-1], "float32")


def first_tokens(x, sentence_ids=None):
    """Returns the vector of the first token of each token's example, float [B, 1 or S, H], of x [B, S, H]."""
    if sentence_ids is None:
        return x[:, :1]
    places = tf.range(tf.shape(x)[1]) - restarting_positions(sentence_ids)
    return tf.gather(x, places, batch_dims=1)


def build_in_cls(head: keras.layers.Layer, width: int) -> keras.layers.Layer:
    """Builds a head for float [B, S, width] in google-research/bert's scope "cls", and returns it."""
    with keras.name_scope("cls"):
        head.build((None, None, width))
    return head
