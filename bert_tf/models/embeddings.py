"""Token + segment + position embeddings (Devlin et al. 2018, section 3, figure 2), and ERNIE's task embeddings."""

from typing import Any

import keras
import tensorflow as tf

from bert_tf.models.layers import ConfiguredLayer, Dropout, LayerNorm, initializer


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(ConfiguredLayer):
    """Embedding layer: sums the looked-up embeddings, then applies LayerNorm and dropout.

    Args:
        vocab_size, hidden_size, max_position_embeddings, type_vocab_size, task_type_vocab_size: shapes of the tables;
            the last two tables are absent if they have 0 rows.
        dropout, initializer_range, epsilon, first_position, norm_bias: as in `EncoderConfig`.
        has_positions: whether there is a position table; rotary and relative positions are in the attention instead.

    Inputs: `input_ids`, `segment_ids`, `position_ids`: int32 [B, S]. If `segment_ids` is None, all are 0; if
    `position_ids` is None, they are 0, 1, 2, ..., relative to `first_position`. Without a segment table, segment ids
    are ignored. The task is always the first. Output: float [B, S, H] in the compute dtype.

    Attributes:
        keeps_position_floats: whether `position_ids` are looked up by an operation whose table the converter of LiteRT
            does not quantize; one scale for all positions would cost accuracy.

    Raises:
        ValueError: the sequence is longer than the position table or, in eager mode only, a segment id is outside its
            table; in a graph, such an id adds zeros.
    """

    keeps_position_floats = False

    def __init__(
        self,
        vocab_size,
        hidden_size,
        max_position_embeddings,
        type_vocab_size,
        dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        first_position=0,
        task_type_vocab_size=0,
        norm_bias=True,
        has_positions=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.epsilon = epsilon
        self.first_position = first_position
        self.task_type_vocab_size = task_type_vocab_size
        self.norm_bias = norm_bias
        self.has_positions = has_positions
        self.norm = LayerNorm(epsilon, norm_bias, name="LayerNorm", dtype=self.dtype_policy, trainable=self.trainable)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the embeddings of an `EncoderConfig`."""
        return cls(
            config.vocab_size,
            config.embedding_width,
            config.max_position_embeddings,
            config.type_vocab_size,
            config.hidden_dropout_prob,
            config.initializer_range,
            config.layer_norm_eps,
            config.first_position,
            config.task_type_vocab_size,
            config.norm_bias,
            config.has_position_table,
            **kwargs,
        )

    def build(self, input_shape=None):
        # Rows are gathered and added in float32 before rounding: casting the whole table would cost more.
        def table(name, rows):
            shape = (rows, self.hidden_size)
            return self.add_weight(
                name=name, shape=shape, initializer=initializer(self.initializer_range), autocast=False
            )

        self.word_embeddings = table("word_embeddings", self.vocab_size)
        if self.type_vocab_size:
            self.token_type_embeddings = table("token_type_embeddings", self.type_vocab_size)
        if self.has_positions:
            self.position_embeddings = table("position_embeddings", self.max_position_embeddings)
        if self.task_type_vocab_size:
            self.task_type_embeddings = table("task_type_embeddings", self.task_type_vocab_size)
        self.norm.build((None, None, self.hidden_size))
        self.dropout.build((None, None, self.hidden_size))

    def call(self, input_ids, segment_ids=None, position_ids=None, training=None):
        if position_ids is None:
            check_static_length(input_ids.shape[1], self)
        x = tf.gather(self.word_embeddings, input_ids)
        if not self.has_positions:
            pass
        elif position_ids is None:
            x += self.position_embeddings[self.first_position : self.first_position + tf.shape(input_ids)[1]]
        else:
            rows = position_ids + self.first_position
            if self.keeps_position_floats:
                x += tf.gather_nd(self.position_embeddings, rows[..., tf.newaxis])
            else:
                x += tf.gather(self.position_embeddings, rows)
        if self.type_vocab_size:
            x += self._segments(tf.zeros_like(input_ids) if segment_ids is None else segment_ids)
        if self.task_type_vocab_size:
            x += self.task_type_embeddings[0]
        return self.dropout(self.norm(x), training=training)

    def _check_segments(self, segment_ids):
        """Checks segment ids in eager mode only; in graphs, the code that builds batches checks them."""
        if not tf.executing_eagerly() or not tf.size(segment_ids):
            return
        if not 0 <= int(tf.reduce_min(segment_ids)) <= int(tf.reduce_max(segment_ids)) < self.type_vocab_size:
            raise ValueError(
                f"segment_ids must be from 0 to {self.type_vocab_size - 1}, because type_vocab_size is "
                f"{self.type_vocab_size}; got {int(tf.reduce_min(segment_ids))} to {int(tf.reduce_max(segment_ids))}; "
                "omit them if each sequence contains one text."
            )

    def _segments(self, segment_ids):
        self._check_segments(segment_ids)
        # A product with one-hot rows: the gradient of a gather into two rows would add every token one after another.
        table = tf.convert_to_tensor(self.token_type_embeddings)
        return tf.einsum("bst,th->bsh", tf.one_hot(segment_ids, self.type_vocab_size, dtype=table.dtype), table)

    def compute_output_shape(self, input_shape, *_):
        return (*input_shape, self.hidden_size)


def check_static_length(length: int | None, config: Any):
    """Raises ValueError if a sequence has more tokens than a model has positions, whatever kind these are.

    Args:
        length: S, or None if it is not known before the graph runs.
        config: has `max_position_embeddings` and `first_position`, as `EncoderConfig` and `Embeddings`.
    """
    if length is not None and length > config.max_position_embeddings - config.first_position:
        raise ValueError(
            f"{_most_tokens(config)}; got {length}; truncate the texts to max_seq_length, as `BaseTokenizer` does."
        )


def ensure_length(input_ids, config: Any):
    """Returns `input_ids` int32 [..., S] unchanged; in the graph, sequences that are too long fail with a message.

    Without it, positions that are not rows of a table would be computed beyond those that the model has learned.

    Args:
        input_ids, config: as above; raises ValueError as `check_static_length`.
    """
    check_static_length(input_ids.shape[-1], config)
    length, most = tf.shape(input_ids)[-1], config.max_position_embeddings - config.first_position
    fits = tf.debugging.Assert(length <= most, [f"{_most_tokens(config)}. The request has", length])
    with tf.control_dependencies([fits]):
        return tf.identity(input_ids)


def _most_tokens(config):
    less = f" - first_position = {config.max_position_embeddings - config.first_position}"
    less = less if config.first_position else ""
    return f"A sequence must have at most max_position_embeddings = {config.max_position_embeddings}{less} tokens"


def restarting_positions(sentence_ids):
    """Returns positions that restart with every example of a packed sequence.

        sentence_ids   1 1 1 2 2 0 0
        positions      0 1 2 0 1 0 0

    Args and returns: int32 [B, S]. The tokens of an example follow each other; 0 is padding.
    """
    is_first = tf.pad(sentence_ids[:, 1:] != sentence_ids[:, :-1], [[0, 0], [1, 0]], constant_values=False)
    number = tf.cumsum(tf.cast(is_first, tf.int32), axis=1)  # 0 0 0 1 1 2 2: in order, so that each can be looked up
    first = tf.searchsorted(number, number)  # where each token's example begins; comparing all pairs would be [B, S, S]
    return tf.where(sentence_ids > 0, tf.range(tf.shape(sentence_ids)[1]) - first, 0)
