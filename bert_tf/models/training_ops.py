"""Operations for training: seeded dropout, recomputation, and gradients faster or more precise than TensorFlow's."""

import contextlib
import functools
import threading

import keras
import numpy as np
import tensorflow as tf

_SQRT_HALF = np.float32(np.sqrt(0.5))
_LOG_SLOPE = np.float32(np.log(2 / np.sqrt(np.pi)))  # of the slope of erf at 0
_TANH_SCALE, _TANH_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)

_scopes = threading.local()


@contextlib.contextmanager
def seed_scope(seed):
    """Makes all Dropout layers inside derive their masks from `seed`, int32 [2], and their own paths.

    A training step opens one with a seed derived from (run, step, replica), so that a resumed run repeats itself, and a
    block whose activations are recomputed in the backward pass drops the same ones.
    """
    before = getattr(_scopes, "seed", None)
    _scopes.seed = seed
    try:
        yield
    finally:
        _scopes.seed = before


@contextlib.contextmanager
def program_scope(is_compiled: bool):
    """Makes the operations inside take the form that XLA fuses, if they are part of a program that it compiles whole.

    Outside such a program, that form would be slower: each of its operations would pass through memory.
    """
    before = _in_program()
    _scopes.in_program = is_compiled
    try:
        yield
    finally:
        _scopes.in_program = before


def _in_program():
    return getattr(_scopes, "in_program", False)


def current_seed():
    """Returns the seed of the innermost `seed_scope`, or a fresh one from Keras's global generator: int32 [2]."""
    seed = getattr(_scopes, "seed", None)
    return keras.random.randint((2,), 0, 2**31 - 1, dtype="int32") if seed is None else seed


def recomputed(run):
    """Makes a function of tensors recompute its activations in the backward pass instead of storing them.

    Both passes use the same dropout masks, because the seed is drawn once. Gradients only reach variables and the
    arguments, not other tensors that the function uses.
    """
    seed = current_seed()

    @tf.recompute_grad
    def again(*tensors):
        with seed_scope(seed):
            return run(*tensors)

    return again


def _fused(function):
    """Lets XLA fuse a chain of element-wise operations into one loop, on CPUs with static shapes.

    Unfused, every operation passes through memory. XLA recompiles for each shape, so it is used if shapes are known
    when the graph is built, as in pretraining, and not if each batch is padded to its longest sequence; and on CPUs
    only: elsewhere a step is compiled as a whole (`program_scope`) or not at all.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    def call(*tensors, **more):
        return (compiled if _can_fuse(*tensors) else function)(*tensors, **more)

    return call


def _can_fuse(*tensors):
    return not _in_program() and not _accelerators() and all(tensor.shape.is_fully_defined() for tensor in tensors)


@functools.cache
def _accelerators():
    return [device for device in tf.config.list_logical_devices() if device.device_type != "CPU"]


def _tanh_gate(x):
    """Returns (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), as a sigmoid, for precision in the tail."""
    return 1 / (1 + tf.exp(-2 * _TANH_SCALE * x * (1 + _TANH_CUBE * x * x)))


def _gelu_slope(x, approximate):
    """Returns the derivative of GELU at float32 x."""
    if approximate:
        gate = _tanh_gate(x)
        return gate * (1 + x * (1 - gate) * (2 * _TANH_SCALE) * (1 + 3 * _TANH_CUBE * x * x))
    u = x * _SQRT_HALF
    return 0.5 * (1 + tf.math.erf(u) + u * tf.exp(_LOG_SLOPE - u * u))


def _gelu(x, approximate):
    z = tf.cast(x, tf.float32)
    y = z * _tanh_gate(z) if approximate else 0.5 * z * (1 + tf.math.erf(z * _SQRT_HALF))
    return tf.cast(y, x.dtype)


def _gelu_gradient(x, dy, approximate):
    return tf.cast(tf.cast(dy, tf.float32) * _gelu_slope(tf.cast(x, tf.float32), approximate), x.dtype)


_GELU, _GELU_GRADIENT = (
    {approximate: _fused(functools.partial(function, approximate=approximate)) for approximate in (True, False)}
    for function in (_gelu, _gelu_gradient)
)


def gelu(x, approximate):
    """Computes GELU (Hendrycks and Gimpel 2016), storing only its input for the backward pass.

    The same function as tf.nn.gelu, computed in float32 and rounded once. TensorFlow's automatic gradient stores and
    rounds about ten intermediate tensors.

    Args:
        x: float [...].
        approximate: whether to use Google's tanh approximation instead of the exact erf form.
    """

    @tf.custom_gradient
    def run(x):
        return _GELU[approximate](x), lambda dy: _GELU_GRADIENT[approximate](x, dy)

    return run(tf.convert_to_tensor(x))


def linear(x, kernel, bias):
    """Computes x W + b; the bias gradient is summed in float32.

    TensorFlow's BiasAddGrad keeps its running sum in the input dtype: in bfloat16 it was off by 4 to 15% after 2048
    rows, and slower. A product with ones accumulates in float32; XLA fuses a plain sum with what computes `dy`.
    This op keeps product and bias together, so that oneDNN still fuses them.

    Args:
        x: float [N, in].
        kernel, bias: [in, out] and [out] in the same type.
    """

    @tf.custom_gradient
    def run(x, kernel, bias):
        def gradient(dy):
            d_kernel = tf.matmul(x, dy, transpose_a=True)
            return tf.matmul(dy, kernel, transpose_b=True), d_kernel, _sum_rows(dy)

        return tf.nn.bias_add(tf.matmul(x, kernel), bias), gradient

    return run(x, tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias))


def _sum_rows(dy):
    """Returns the sum of the rows of dy [N, out], accumulated in float32."""
    if _in_program():
        return tf.cast(tf.reduce_sum(tf.cast(dy, tf.float32), 0), dy.dtype)
    return tf.matmul(tf.ones([1, tf.shape(dy)[0]], dy.dtype), dy)[0]


def slice_axis(x, axis, begin, size):
    """Returns the part of x from `begin` on with `size` values along an axis; its gradient is a pad.

    The gradient of x[:, begin:end], StridedSliceGrad, takes five to ten times as long on a CPU.

    Args:
        x: [...] with a known rank.
        axis: a Python number from 0 on.
        begin, size: int32 scalars.
    """
    sizes = [-1 if each is None else each for each in x.shape]
    sizes[axis] = size
    return tf.slice(x, [begin if n == axis else 0 for n in range(x.shape.rank)], sizes)


def gather_tokens(tokens, indices, sources):
    """Returns the vectors of packed rows in the order of the batch, [B, S, H]; the gradient is a gather too.

    TensorFlow's gradient adds up at indices, one after the other on a CPU, and in any order on a GPU.

    Args:
        tokens: float [P, H], the rows' flat list.
        indices: int32 [B, S], the index of each token in `tokens`; padding has that of its text's first token.
        sources: int32 with P values, the index of each of `tokens` in the batch's flat list, -1 for padding.
    """

    @tf.custom_gradient
    def run(tokens):
        def gradient(dy):
            is_copy = (indices == indices[:, :1])[:, 1:, tf.newaxis]
            first = dy[:, :1] + tf.reduce_sum(tf.where(is_copy, dy[:, 1:], 0), 1, keepdims=True)
            flat = tf.reshape(tf.concat([first, dy[:, 1:]], 1), [-1, dy.shape[-1]])
            source = tf.reshape(sources, [-1, 1])
            return tf.where(source >= 0, tf.gather(flat, tf.maximum(source[:, 0], 0)), 0)

        return tf.gather(tokens, indices), gradient

    return run(tokens)


def dropout(x, rate, seed):
    """Zeroes a fraction `rate` of the values and scales the others by 1 / (1 - rate); `seed` determines the mask.

    Where XLA compiles, the random bits are hashes, computed on the fly and again in the backward pass, so that no
    mask is stored; otherwise they are Philox's.

    Args:
        x: float [...].
        rate: from 0 to below 1.
        seed: int32 [2].
    """
    if not (_in_program() or _can_fuse(x)):
        return x * keep_mask(tf.shape(x), rate, seed, x.dtype)

    @tf.custom_gradient
    def run(x):
        drop = functools.partial(_hashed_dropout(rate), seed=seed)
        return drop(x), drop

    return tf.reshape(run(tf.reshape(x, [-1])), tf.shape(x))


@functools.cache
def _hashed_dropout(rate):
    def drop(x, seed):
        a, b = tf.unstack(tf.bitcast(seed, tf.uint32))
        first = _hash(a + _hash(b, 0), 0)
        place = tf.cast(tf.range(tf.size(x)), tf.uint32)
        bits = _hash(tf.bitwise.bitwise_xor(place, first), _hash(first + b, 0))
        survivors = tf.cast(x, tf.float32) * np.float32(1 / (1 - rate))
        return tf.cast(tf.where(bits >= np.uint32(rate * 2**32), survivors, 0), x.dtype)

    return _fused(drop)


def _hash(x, key):
    """Mixes uint32 [...] so that each bit of the result depends on all of x and `key` (Wellons 2018, "lowbias32")."""

    def fold(x, bits):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, np.uint32(bits)))

    x = fold(x, 16) * np.uint32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, tf.cast(key, tf.uint32))
    return fold(fold(x, 15) * np.uint32(0x846CA68B), 16)


def keep_mask(shape, rate, seed, dtype):
    """Returns a dropout mask of `dtype`: 0 with probability `rate`, otherwise 1 / (1 - rate); `seed` is int32 [2].

    It uses 16 random bits per element: half the cost of thirty-two, and the rate is accurate to 1 / 65536.
    """
    count = tf.reduce_prod(shape)
    bits = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.uint32, alg="philox")
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:count]
    keep = tf.cast(tf.reshape(bits, shape) >= np.uint16(round(rate * 2**16)), dtype)
    return keep * tf.cast(1 / (1 - rate), dtype)
