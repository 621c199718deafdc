"""Operations for training: seeded dropout, recomputation, and gradients faster or more precise than TensorFlow's."""

import contextlib
import functools
import threading

import keras
import numpy as np
import tensorflow as tf

_SQRT_HALF = np.float32(np.sqrt(0.5))
_DENSITY = np.float32(1 / np.sqrt(2 * np.pi))
_TANH_SCALE, _TANH_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)

_scopes = threading.local()


@contextlib.contextmanager
def seed_scope(seed):
    """Makes every Dropout inside draw from `seed`, int32 [2], and from its own path: the same seed, the same masks.

    A training step opens one with a seed made of (run, step, replica): then a resumed run repeats itself, and a block
    whose activations are computed again in the backward pass drops the same ones.
    """
    before = getattr(_scopes, "seed", None)
    _scopes.seed = seed
    try:
        yield
    finally:
        _scopes.seed = before


def current_seed():
    """Returns the seed of the innermost `seed_scope`, or a fresh one from Keras's global generator: int32 [2]."""
    seed = getattr(_scopes, "seed", None)
    return keras.random.randint((2,), 0, 2**31 - 1, dtype="int32") if seed is None else seed


def recomputed(run):
    """Makes a function of a tensor compute its activations again in the backward pass instead of keeping them.

    The second pass drops what the first one dropped: its seed is drawn once.
    """
    seed = current_seed()

    @tf.recompute_grad
    def again(x):
        with seed_scope(seed):
            return run(x)

    return again


def _fused(function):
    """Lets XLA fuse a chain of element-wise operations into one loop, on CPUs and where shapes are static.

    Operation by operation, the chain goes through memory once each. XLA compiles again for each shape, so it is used
    where shapes are known when the graph is made, as in pretraining, and not where each batch is as wide as its longest
    row; and on CPUs only: elsewhere a step is compiled as a whole (`StepConfig.use_xla`) or not at all.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    def call(*tensors, **more):
        return (compiled if _can_fuse(*tensors) else function)(*tensors, **more)

    return call


def _can_fuse(*tensors):
    return not _accelerators() and all(tensor.shape.is_fully_defined() for tensor in tensors)


@functools.cache
def _accelerators():
    return [device for device in tf.config.list_logical_devices() if device.device_type != "CPU"]


def _tanh_gate(x):
    """(1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), written as a sigmoid, whose tail keeps its digits."""
    return 1 / (1 + tf.exp(-2 * _TANH_SCALE * x * (1 + _TANH_CUBE * x * x)))


def _gelu_slope(x, approximate):
    """The derivative of GELU at float32 x."""
    if approximate:
        gate = _tanh_gate(x)
        return gate * (1 + x * (1 - gate) * (2 * _TANH_SCALE) * (1 + 3 * _TANH_CUBE * x * x))
    return 0.5 * (1 + tf.math.erf(x * _SQRT_HALF)) + x * tf.exp(-0.5 * x * x) * _DENSITY


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
    """GELU (Hendrycks and Gimpel 2016) that keeps only its input for the backward pass.

    The same function as tf.nn.gelu, computed in float32 and rounded once. TensorFlow's automatic gradient keeps and
    rounds some ten intermediate tensors.

    Args:
        x: float [...].
        approximate: Google's tanh form instead of the exact erf form.
    """

    @tf.custom_gradient
    def run(x):
        return _GELU[approximate](x), lambda dy: _GELU_GRADIENT[approximate](x, dy)

    return run(tf.convert_to_tensor(x))


def linear(x, kernel, bias):
    """x W + b whose bias gradient is a product with ones: matrix products add up in float32 and round once.

    TensorFlow's own BiasAddGrad keeps its running sum in the type of its input: in bfloat16 it was 4 to 15 % off after
    2048 rows, and slower. Product and bias stay in one piece here, so that oneDNN still fuses the two.

    Args:
        x: float [N, in].
        kernel, bias: [in, out] and [out] in the same type.
    """

    @tf.custom_gradient
    def run(x, kernel, bias):
        def gradient(dy):
            ones = tf.ones([1, tf.shape(dy)[0]], dy.dtype)
            d_kernel, d_bias = tf.matmul(x, dy, transpose_a=True), tf.matmul(ones, dy)[0]
            return tf.matmul(dy, kernel, transpose_b=True), d_kernel, d_bias

        return tf.nn.bias_add(tf.matmul(x, kernel), bias), gradient

    return run(x, tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias))


def dropout(x, rate, seed):
    """Zeroes a share `rate` of the numbers and scales the others by 1 / (1 - rate); the masks are a function of `seed`.

    Where `_fused` compiles, the random bits are hashes, made on the way and again in the backward pass, so that no
    mask is kept; elsewhere they are Philox's.

    Args:
        x: float [...].
        rate: from 0 to below 1.
        seed: int32 [2].
    """
    if not _can_fuse(x):
        return x * keep_mask(tf.shape(x), rate, seed, x.dtype)

    @tf.custom_gradient
    def run(x):
        drop = functools.partial(_hashed_dropout(rate), seed=seed)
        return drop(x), drop

    return tf.reshape(run(tf.reshape(x, [-1])), x.shape)


@functools.cache
def _hashed_dropout(rate):
    def drop(x, seed):
        a, b = tf.unstack(tf.bitcast(seed, tf.uint32))
        first = _hash(a + _hash(b, 0), 0)
        place = tf.cast(tf.range(x.shape[0]), tf.uint32)
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
    """Returns a tensor of `dtype`: 0 with probability `rate`, else 1 / (1 - rate), drawn from `seed`, int32 [2].

    Sixteen random bits an element: half the cost of thirty-two, and the rate is accurate to 1 / 65536.
    """
    count = tf.reduce_prod(shape)
    bits = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.uint32, alg="philox")
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:count]
    keep = tf.cast(tf.reshape(bits, shape) >= np.uint16(round(rate * 2**16)), dtype)
    return keep * tf.cast(1 / (1 - rate), dtype)
