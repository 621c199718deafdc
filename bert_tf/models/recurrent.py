"""BiLSTM heads on encoder features, as in the BERT paper.

The paper uses them on a frozen encoder in its feature-based approach (section 5.3), and on a left-to-right encoder,
which lacks the right context, in its ablation (section 5.1).
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from bert_tf.models.heads import ClassificationHead
from bert_tf.models.layers import ConfiguredLayer, Dropout
from bert_tf.models.pooling import LayerSum

GATES = 4  # input, forget, cell and output, in Keras's order
RECURRENT = "recurrent"  # path prefix of a BiLSTM's weights on an encoder that is trained with it


class _LSTMStep(keras.layers.Layer):
    """LSTM cell for `keras.layers.RNN`, whose inputs are already multiplied by the kernel in one product.

    Args:
        recurrent: float [U, 4 U].
    """

    def __init__(self, recurrent):
        super().__init__(dtype="float32", autocast=False)
        self.recurrent = recurrent
        self.output_size = recurrent.shape[0]
        self.state_size = (self.output_size, self.output_size)

    def call(self, gates, states):
        state, cell = states
        gates += tf.cast(tf.matmul(tf.cast(state, self.recurrent.dtype), self.recurrent), tf.float32)
        enter, forget, candidate, leave = tf.split(gates, GATES, axis=-1)
        cell = tf.sigmoid(forget) * cell + tf.sigmoid(enter) * tf.tanh(candidate)
        state = tf.sigmoid(leave) * tf.tanh(cell)
        return state, (state, cell)


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTM(ConfiguredLayer):
    """Bidirectional LSTM (Hochreiter and Schmidhuber 1997).

    Equivalent to keras.layers.Bidirectional with two LSTMs, except that states and gates are always float32 and one
    variable contains the weights of both directions. The state does not change where the mask is 0, so that the
    backward direction begins with the last token and the output does not depend on the amount of padding.

    Args:
        units: units of each direction.

    Inputs: `values` float [B, S, D]; `input_mask` int32 [B, S], 1 = token, 0 = padding. Output: float [B, S, 2 units]
    in the compute dtype: the two directions of every token, concatenated.
    Weights, each for one direction and then the other: `kernel` [2, D, 4 units], `recurrent_kernel` [2, units,
    4 units], `bias` [2, 4 units].
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape, *_):
        glorot, orthogonal = keras.initializers.GlorotUniform(), keras.initializers.Orthogonal()
        width, gates = input_shape[-1], GATES * self.units

        def each_way(start):
            def both(shape, dtype="float32"):  # TensorFlow finds no orthogonal matrix in bfloat16
                return tf.cast(tf.stack([start(shape[1:], "float32") for _ in range(2)]), dtype)

            return both

        add = self.add_weight
        self.kernel = add(name="kernel", shape=(2, width, gates), initializer=each_way(glorot))
        self.recurrent_kernel = add(
            name="recurrent_kernel", shape=(2, self.units, gates), initializer=each_way(orthogonal)
        )
        self.bias = add(name="bias", shape=(2, gates), initializer=self._first_bias, autocast=False)

    def _first_bias(self, shape, dtype=None):
        """Returns ones for the forget gates, so that a cell remembers at first (Jozefowicz et al. 2015)."""
        return tf.cast(tf.tile(tf.repeat([[0.0, 1.0, 0.0, 0.0]], self.units, 1), [2, 1]), dtype or "float32")

    def call(self, values, input_mask):
        from_left, from_right = (self._read(values, input_mask, direction) for direction in (0, 1))
        return tf.cast(tf.concat([from_left, tf.reverse(from_right, [1])], -1), self.compute_dtype)

    def _read(self, values, input_mask, direction):
        """Returns the states of one direction in reading order, float32 [B, S, units]."""
        kernel, recurrent, bias = (
            tf.convert_to_tensor(weights)[direction] for weights in (self.kernel, self.recurrent_kernel, self.bias)
        )
        gates = tf.reshape(tf.matmul(tf.reshape(values, [-1, values.shape[-1]]), kernel),
                           tf.concat([tf.shape(values)[:2], kernel.shape[1:]], 0))  # fmt: skip
        gates = tf.cast(gates, tf.float32) + tf.cast(bias, tf.float32)
        step = _LSTMStep(recurrent)
        lstm = keras.layers.RNN(step, return_sequences=True, go_backwards=direction == 1, dtype="float32")
        return lstm(gates, mask=input_mask > 0)

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((*values.shape[:-1], 2 * self.units), self.compute_dtype)


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMHead(ConfiguredLayer):
    """Summed or concatenated encoder layers, `BiLSTM` layers and a linear layer, per token or per sequence.

    Args:
        num_labels: width of the output.
        units: units of each direction of each `BiLSTM`.
        is_weighted: whether to sum the layers with learned weights (`LayerSum`) instead of concatenating them.
        dropout: dropout rate before each `BiLSTM` and before the linear layer.
        initializer_range: standard deviation of the last layer's initializer.
        num_layers: number of `BiLSTM` layers.
        of_row: whether to return one output per sequence, from the final state of each direction.

    Inputs: `layers`, a list of float [B, S, H]; `input_mask` int32 [B, S]. Output: float32 [B, S, num_labels], or
    `of_row` [B, num_labels], logits.
    Weights: those of `layer_sum`, if any, of `lstm_0`, `lstm_1` ... and `classifier`.
    """

    def __init__(
        self,
        num_labels,
        units=256,
        is_weighted=False,
        dropout=0.1,
        initializer_range=0.02,
        num_layers=2,
        of_row=False,
        **kwargs,
    ):
        kwargs.setdefault("name", "tagger")
        super().__init__(**kwargs)
        self.num_labels, self.units, self.is_weighted = num_labels, units, is_weighted
        self.dropout_rate, self.initializer_range = dropout, initializer_range
        self.num_layers, self.of_row = num_layers, of_row
        settings = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.layer_sum = LayerSum(name="layer_sum", **settings) if is_weighted else None
        self.dropouts = [Dropout(dropout, name=f"dropout_{n}", **settings) for n in range(num_layers)]
        self.lstms = [BiLSTM(units, name=f"lstm_{n}", **settings) for n in range(num_layers)]
        self.classifier = ClassificationHead(num_labels, dropout, initializer_range, **settings)

    def build(self, layers_shape, *_):
        width = layers_shape[0][-1] * (1 if self.is_weighted else len(layers_shape))
        if self.layer_sum:
            self.layer_sum.build(layers_shape)
        for dropout, lstm in zip(self.dropouts, self.lstms, strict=True):
            dropout.build((None, None, width))
            lstm.build((None, None, width))
            width = 2 * self.units
        self.classifier.build((None, None, width))

    def call(self, layers, input_mask, training=None):
        x = self.layer_sum(layers) if self.layer_sum else tf.concat(layers, -1)
        for dropout, lstm in zip(self.dropouts, self.lstms, strict=True):
            x = lstm(dropout(x, training=training), input_mask)
        if self.of_row:  # the states do not change over padding
            x = tf.concat([x[:, -1, : self.units], x[:, 0, self.units :]], -1)
        return self.classifier(x, training=training)

    def compute_output_spec(self, layers, input_mask, training=None):
        shape = input_mask.shape[:1] if self.of_row else input_mask.shape
        return keras.KerasTensor((*shape, self.num_labels), "float32")


def bilstm_on_top(encoder, inputs: Mapping, num_labels: int, units: int, of_row: bool = False):
    """Adds a new `BiLSTMHead` with one layer to an encoder that is trained with it, and returns its output.

    Args:
        encoder: an `Encoder`; its pooler is frozen, because it is unused.
        inputs: the encoder's inputs; `input_mask` is required.
        num_labels, units, of_row: as in `BiLSTMHead`.

    Returns:
        float32 [B, S, num_labels] or [B, num_labels].
    """
    if encoder.pooler:
        encoder.pooler.trainable = False
    c = encoder.config
    settings = {"dropout": c.hidden_dropout_prob, "initializer_range": c.initializer_range}
    head = BiLSTMHead(num_labels, units, num_layers=1, of_row=of_row, name=RECURRENT, **settings)
    return head([encoder(inputs)["sequence_output"]], inputs["input_mask"])
