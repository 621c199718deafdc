"""The loop of an LSTM over the pieces of rows, with a gradient of its own."""

import functools

import tensorflow as tf

GATES = 4  # enter, forget, new and leave, in Keras's order: input, forget, cell, output


def read(told: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
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
