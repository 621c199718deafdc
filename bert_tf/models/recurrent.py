"""A head that reads features both ways: the BiLSTMs of the BERT paper.

They are on a frozen encoder in its feature-based approach (section 5.3), and on a left-to-right one, which lacks the
right side, in its ablation (section 5.1).
"""

import functools
from collections.abc import Mapping

import keras
import tensorflow as tf

from bert_tf.models.heads import ClassificationHead
from bert_tf.models.layers import Dropout
from bert_tf.models.pooling import LayerSum

# === Lstm loop ===
# The loop of an LSTM over the pieces of rows, with a gradient of its own.


GATES = 4  # enter, forget, new and leave, in Keras's order: input, forget, cell, output


def run_lstms(told: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the states of R LSTMs of U units, which read side by side, float32 [S, R, B, U].

    Left to itself, TensorFlow would multiply for the gradient of `recurrent` at every step; here it does so once.

    Args:
        told: float [S, R, B, 4 U], what the pieces tell the gates, in the order of reading.
        recurrent: of the same dtype, [R, U, 4 U].
        bias: float32 [R, 4 U].
        mask: float32 [S, 1 or R, B, 1]; where it is 0 the state stays as it is.
    """

    @tf.custom_gradient
    def run(told, recurrent, bias):
        states, cells, gates = _forward(told, recurrent, bias, mask)

        def gradient(upstream):
            of_gates = _backward(upstream, recurrent, cells, gates, mask)
            before = tf.concat([tf.zeros_like(states[:1]), states[:-1]], 0)
            rows = [_rows(tf.cast(each, recurrent.dtype)) for each in (before, of_gates)]
            of_recurrent = tf.matmul(*rows, transpose_a=True)
            return tf.cast(of_gates, told.dtype), of_recurrent, tf.reduce_sum(of_gates, [0, 2])

        return states, gradient

    return run(told, recurrent, bias)


def _forward(told, recurrent, bias, mask):
    """Returns states, cells and what the gates let through: float32 [S, R, B, U] twice and [S, R, B, 4 U]."""
    count, zeros = tf.shape(told)[0], _zeros(told, recurrent)
    told, mask = _apart(told), _apart(mask)

    def step(n, state, cell, *written):
        open_ = tf.cast(told.read(n) + tf.matmul(tf.cast(state, recurrent.dtype), recurrent), tf.float32)
        enter, forget, new, leave = gates = _activated(open_ + bias[:, tf.newaxis])
        there, next_cell = mask.read(n), forget * cell + enter * new
        state = state + there * (leave * tf.tanh(next_cell) - state)
        cell = cell + there * (next_cell - cell)
        return n + 1, state, cell, *_write(written, n, (state, cell, tf.concat(gates, -1)))

    R, U, gates = recurrent.shape
    places = [tf.TensorArray(tf.float32, count, element_shape=[R, None, width]) for width in (U, U, gates)]
    return _loop(count, step, (tf.constant(0), zeros, zeros, *places))


def _backward(upstream, recurrent, cells, gates, mask):
    """Returns the gradient of what the gates were told, float32 [S, R, B, 4 U]."""
    count, zeros = tf.shape(upstream)[0], _zeros(upstream, recurrent)
    before = _apart(tf.concat([tf.zeros_like(cells[:1]), cells[:-1]], 0))
    upstream, gates, mask = _apart(upstream), _apart(gates), _apart(mask)

    def step(k, of_state, of_cell, *written):
        n = count - 1 - k
        (enter, forget, new, leave), cell, there = _parts(gates.read(n)), before.read(n), mask.read(n)
        of_state += upstream.read(n)
        squashed = tf.tanh(forget * cell + enter * new)
        of_next = there * (of_cell + of_state * leave * (1 - squashed * squashed))
        told = [
            of_next * new * enter * (1 - enter),
            of_next * cell * forget * (1 - forget),
            of_next * enter * (1 - new * new),
            there * of_state * squashed * leave * (1 - leave),
        ]
        told = tf.concat(told, -1)
        back = tf.matmul(tf.cast(told, recurrent.dtype), recurrent, transpose_b=True)
        of_state = (1 - there) * of_state + tf.cast(back, tf.float32)
        return k + 1, of_state, (1 - there) * of_cell + forget * of_next, *_write(written, n, (told,))

    place = tf.TensorArray(tf.float32, count, element_shape=[recurrent.shape[0], None, recurrent.shape[2]])
    return _loop(count, step, (tf.constant(0), zeros, zeros, place))[0]


def _zeros(values, recurrent):
    """Returns the state before the first piece, float32 [R, B, U]."""
    return tf.zeros([recurrent.shape[0], tf.shape(values)[2], recurrent.shape[1]])


def _loop(count, step, start):
    """Returns what was written, stacked."""
    _, _, _, *written = tf.while_loop(lambda n, *_: n < count, step, start, maximum_iterations=count)
    return [each.stack() for each in written]


def _activated(open_):
    enter, forget, new, leave = _parts(open_)
    return tf.sigmoid(enter), tf.sigmoid(forget), tf.tanh(new), tf.sigmoid(leave)


_parts = functools.partial(tf.split, num_or_size_splits=GATES, axis=-1)


def _write(places, n, values):
    return [place.write(n, value) for place, value in zip(places, values, strict=True)]


def _apart(values):
    """Returns [S, ...] piece by piece: a slice of it in the loop would cost more with each piece."""
    return tf.TensorArray(values.dtype, tf.shape(values)[0], element_shape=values.shape[1:]).unstack(values)


def _rows(values):
    """Returns [S, R, B, U] as [R, S * B, U]."""
    return tf.reshape(tf.transpose(values, [1, 0, 2, 3]), [values.shape[1], -1, values.shape[-1]])


# === Recurrent ===


RECURRENT = "recurrent"  # how the paths of a BiLSTM's weights begin on an encoder that is trained with it


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTM(keras.layers.Layer):
    """An LSTM from left to right and one from right to left (Hochreiter and Schmidhuber 1997), in one loop.

    What keras.layers.Bidirectional computes with two LSTMs. Here both directions take a step at once, and states and
    gates are float32 whatever the precision. Where the mask is 0 the state stays as it is, so that the reading from the
    right begins with the last piece, and what a row gives does not depend on how far it was padded.

    Args:
        units: of each direction.

    Inputs: `values` float [B, S, D]; `input_mask` int32 [B, S], 1 = piece, 0 = padding. Output: float [B, S, 2 units]
    in the compute dtype: what the two directions say of every piece, side by side.
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
        """Ones for the forget gates, so that a cell remembers at first (Jozefowicz et al. 2015)."""
        return tf.cast(tf.tile(tf.repeat([[0.0, 1.0, 0.0, 0.0]], self.units, 1), [2, 1]), dtype or "float32")

    def call(self, values, input_mask):
        there = tf.cast(tf.transpose(input_mask)[:, tf.newaxis, :, tf.newaxis], tf.float32)  # [S, 1, B, 1]
        there = tf.concat([there, tf.reverse(there, [0])], 1)
        recurrent = tf.convert_to_tensor(self.recurrent_kernel)
        states = run_lstms(self._told(values), recurrent, tf.cast(self.bias, tf.float32), there)
        from_left, from_right = tf.unstack(states, axis=1)
        both = tf.concat([from_left, tf.reverse(from_right, [0])], -1)
        return tf.cast(tf.transpose(both, [1, 0, 2]), self.compute_dtype)

    def _told(self, values):
        """Returns what the pieces tell the gates, [S, 2, B, 4 units]; from right to left the last piece comes first."""
        B, S = tf.unstack(tf.shape(values)[:2])
        rows = tf.reshape(tf.transpose(values, [1, 0, 2]), [S * B, values.shape[-1]])
        left, right = (tf.matmul(rows, kernel) for kernel in tf.unstack(tf.convert_to_tensor(self.kernel)))
        left, right = (tf.reshape(told, [S, B, GATES * self.units]) for told in (left, right))
        return tf.stack([left, tf.reverse(right, [0])], 1)

    def compute_output_spec(self, values, input_mask):
        return keras.KerasTensor((*values.shape[:-1], 2 * self.units), self.compute_dtype)

    def get_config(self):
        return super().get_config() | {"units": self.units}


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMHead(keras.layers.Layer):
    """A sum of layers or all of them side by side, `BiLSTM` layers, and a linear layer, for every piece or the row.

    Args:
        num_labels: width of the output.
        units: of each direction of each `BiLSTM`.
        is_weighted: sum the layers with learned weights (`LayerSum`); otherwise they are put side by side.
        dropout: before each of the parts.
        initializer_range: standard deviation of the last layer's start.
        num_layers: how many `BiLSTM` layers.
        of_row: one output for the row, from what each direction says at its end.

    Inputs: `layers`, a list of float [B, S, H]; `input_mask` int32 [B, S]. Output: float32 [B, S, num_labels], or
    `of_row` [B, num_labels], scores before softmax.
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
        numbers = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.layer_sum = LayerSum(name="layer_sum", **numbers) if is_weighted else None
        self.dropouts = [Dropout(dropout, name=f"dropout_{n}", **numbers) for n in range(num_layers)]
        self.lstms = [BiLSTM(units, name=f"lstm_{n}", **numbers) for n in range(num_layers)]
        self.classifier = ClassificationHead(num_labels, dropout, initializer_range, **numbers)

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
        if self.of_row:  # over padding the states stay as they are
            x = tf.concat([x[:, -1, : self.units], x[:, 0, self.units :]], -1)
        return self.classifier(x, training=training)

    def compute_output_spec(self, layers, input_mask, training=None):
        shape = input_mask.shape[:1] if self.of_row else input_mask.shape
        return keras.KerasTensor((*shape, self.num_labels), "float32")

    def get_config(self):
        return super().get_config() | {
            "num_labels": self.num_labels,
            "units": self.units,
            "is_weighted": self.is_weighted,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
            "num_layers": self.num_layers,
            "of_row": self.of_row,
        }


def bilstm_on_top(encoder, inputs: Mapping, num_labels: int, units: int, of_row: bool = False):
    """Returns what a fresh `BiLSTMHead` of one layer makes of an encoder that is trained with it.

    Args:
        encoder: an `Encoder`, whose pooler stays unused.
        inputs: its inputs; `input_mask` must be there.
        num_labels, units, of_row: as in `BiLSTMHead`.

    Returns:
        float32 [B, S, num_labels] or [B, num_labels].
    """
    if encoder.pooler:
        encoder.pooler.trainable = False
    c = encoder.config
    numbers = {"dropout": c.hidden_dropout_prob, "initializer_range": c.initializer_range}
    head = BiLSTMHead(num_labels, units, num_layers=1, of_row=of_row, name=RECURRENT, **numbers)
    return head([encoder(inputs)["sequence_output"]], inputs["input_mask"])
