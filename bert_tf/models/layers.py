"""The layers that all parts of a model are made of: linear map, layer norm, dropout; and their activations."""

import contextlib
import functools
import inspect
import threading
import zlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import fused_int8
from bert_tf.models.fused_int8 import note_inputs, values_of
from bert_tf.models.graph_forms import INT8_PRODUCTS, LAYER_NORM_KERNEL, is_wanted
from bert_tf.models.lora import Lora
from bert_tf.models.row_packing import as_rows

# === Formulas ===
# GELU, the linear map, LayerNorm and dropout, written with an eye on precision or on the cost of their gradients.


_SQRT_HALF = np.float32(np.sqrt(0.5))
_DENSITY = np.float32(1 / np.sqrt(2 * np.pi))
_TANH_SCALE, _TANH_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


def _one_kernel(function):
    """Makes XLA compile a chain of operations on single numbers into one loop, where that can be had for little.

    Operation by operation, the chain goes through memory once each. XLA compiles again for each shape, so it is used
    where shapes are known when the graph is made, as in pretraining, and not where each batch is as wide as its longest
    row; and on CPUs only: elsewhere a step is compiled as a whole (`StepConfig.use_xla`) or not at all.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    def call(*tensors, **more):
        return (compiled if _compiles(*tensors) else function)(*tensors, **more)

    return call


def _compiles(*tensors):
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
    {exact_or_not: _one_kernel(functools.partial(function, approximate=exact_or_not)) for exact_or_not in (True, False)}
    for function in (_gelu, _gelu_gradient)
)


def gelu_for_training(x, approximate):
    """GELU (Hendrycks and Gimpel 2016) that keeps only its input for the backward pass.

    The same value as tf.nn.gelu, which inference uses because oneDNN fuses it with the matrix product before it. Its
    automatic gradient keeps and rounds some ten intermediate tensors; this one is computed in float32 and rounded once.

    Args:
        x: float [...].
        approximate: Google's tanh form instead of the exact erf form.
    """

    @tf.custom_gradient
    def run(x):
        return _GELU[approximate](x), lambda dy: _GELU_GRADIENT[approximate](x, dy)

    return run(tf.convert_to_tensor(x))


def linear_for_training(x, kernel, bias):
    """x W + b whose bias gradient is a product with ones: matrix products add up in float32 and round once.

    TensorFlow's own BiasAddGrad keeps its running sum in the type of its input: in bfloat16 it was 4 to 15 % off after
    2048 rows, and slower. Product and bias stay together here, so that oneDNN still fuses the two.

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


def layer_norm(x, gamma, beta, epsilon, dtype):
    """Normalizes the last axis in float32 and returns `dtype`."""
    if is_wanted(LAYER_NORM_KERNEL):
        return _layer_norm_for_grappler(x, gamma, beta, epsilon, dtype)
    x, gamma, beta = (tf.cast(each, tf.float32) for each in (x, gamma, beta))  # weights too: a pure policy halves them
    x -= tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(x * x, -1, keepdims=True)
    return tf.cast(x * tf.math.rsqrt(variance + epsilon) * gamma + beta, dtype)


def _layer_norm_for_grappler(x, gamma, beta, epsilon, dtype):
    """Rows as channels of a batch normalization, whose kernel computes in float32: grappler's `_MklLayerNorm`.

    The same within rounding. It is for graphs that are not trained: its gradient is a slow one.
    """
    shape, width = tf.shape(x), x.shape[-1]
    number = shape[0] if x.shape.rank == 2 else tf.size(x) // width
    rows = tf.reshape(tf.cast(x, dtype), [1, number, width, 1])
    ones, zeros, none = tf.fill([number], 1.0), tf.fill([number], 0.0), tf.constant([], tf.float32)
    normalized, *_ = tf.raw_ops.FusedBatchNormV3(
        x=rows, scale=ones, offset=zeros, mean=none, variance=none, epsilon=epsilon, data_format="NCHW"
    )
    gamma, beta = (tf.constant(values_of(each), dtype) for each in (gamma, beta))
    return tf.reshape(normalized, shape) * gamma + beta


def dropout(x, rate, seed):
    """Zeroes a share `rate` of the numbers and scales the others by 1 / (1 - rate); the masks are a function of `seed`.

    Where `_one_kernel` compiles, the random bits are hashes, made on the way and again in the backward pass, so that no
    mask is kept; elsewhere they are Philox's.

    Args:
        x: float [...].
        rate: from 0 to below 1.
        seed: int32 [2].
    """
    if not _compiles(x):
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
        index = tf.cast(tf.range(x.shape[0]), tf.uint32)
        bits = _hash(tf.bitwise.bitwise_xor(index, first), _hash(first + b, 0))
        survivors = tf.cast(x, tf.float32) * np.float32(1 / (1 - rate))
        return tf.cast(tf.where(bits >= np.uint32(rate * 2**32), survivors, 0), x.dtype)

    return _one_kernel(drop)


def _hash(x, key):
    """Mixes uint32 [...] so that each bit of the result hangs on all of x and `key` (Wellons 2018, "lowbias32")."""

    def fold(x, bits):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, np.uint32(bits)))

    x = fold(x, 16) * np.uint32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, tf.cast(key, tf.uint32))
    return fold(fold(x, 15) * np.uint32(0x846CA68B), 16)


def keep_mask(shape, rate, seed, dtype):
    """Returns a tensor of `dtype`: 0 with probability `rate`, else 1 / (1 - rate), drawn from `seed`, int32 [2].

    Sixteen random bits an element: half the cost of thirty-two, and the rate is true to 1 / 65536.
    """
    count = tf.reduce_prod(shape)
    bits = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.uint32, alg="philox")
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:count]
    keep = tf.cast(tf.reshape(bits, shape) >= np.uint16(round(rate * 2**16)), dtype)
    return keep * tf.cast(1 / (1 - rate), dtype)


# === Layers ===


_PACKAGE = "bert_tf"
_scopes = threading.local()


def initializer(config_range: float):
    """BERT's start for every weight matrix: a normal distribution cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=config_range)


def activation(name: str, training=False):
    """Returns the function called `name` in `EncoderConfig.hidden_act`; gelu has a cheaper gradient for training."""
    gelu = gelu_for_training if training else tf.nn.gelu
    return {
        "gelu": lambda x: gelu(x, approximate=False),
        "gelu_tanh": lambda x: gelu(x, approximate=True),
        "relu": tf.nn.relu,
        "tanh": tf.tanh,
        "linear": lambda x: x,
    }[name]


def config_of_arguments(made) -> dict:
    """Returns {name: JSON value} of the arguments that an object was made with, each of which is its attribute.

    The attribute has the argument's name, or where a layer has that, the name with "_rate" behind it.
    """
    parameters = list(inspect.signature(type(made).__init__).parameters.values())[1:]
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]
    attributes = [f"{name}_rate" if hasattr(made, f"{name}_rate") else name for name in names]
    values = {name: getattr(made, attribute) for name, attribute in zip(names, attributes, strict=True)}
    return {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in values.items()}


class ConfiguredLayer(keras.layers.Layer):
    """A Keras layer whose configuration is `config_of_arguments`, with Keras's own: name, dtype, trainable."""

    def get_config(self):
        return super().get_config() | config_of_arguments(self)


@keras.saving.register_keras_serializable(_PACKAGE)
class Linear(ConfiguredLayer):
    """x W + b over the last axis, with BERT's initializer, followed by an activation.

    keras.layers.Dense is not used because it multiplies tensors of rank 3 as a batch and adds the bias in a form that
    oneDNN does not fuse; here the product is one matrix product whatever the rank.

    Args:
        units: width of the output.
        activation: a name of `EncoderConfig.hidden_act`.
        initializer_range: standard deviation of the kernel's start.
        lora: a `Lora`, or the dict that its `to_dict` made: an adapter x A B alpha / rank is added before the
            activation. None: there is none.

    Input: float [..., in]. Output: float [..., units] in the compute dtype.
    """

    def __init__(self, units, activation="linear", initializer_range=0.02, lora=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.activation = activation
        self.initializer_range = initializer_range
        self.lora = Lora.of(lora)

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer(self.initializer_range))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        if self.lora:
            a, b = (input_shape[-1], self.lora.rank), (self.lora.rank, self.units)
            self.lora_a = self.add_weight(name="lora_A", shape=a, initializer=_adapter_start())
            self.lora_b = self.add_weight(name="lora_B", shape=b, initializer="zeros")

    def call(self, x, training=None):
        return linear(self, x, training)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


def linear(layer, x, training=None):
    """Returns what a layer gives, float [..., units].

    Args:
        layer: a `Linear`, or what has its attributes.
        x: float [..., in].
    """
    rows = as_rows(x)
    note_inputs(x, layer.kernel)
    if training:
        y = linear_for_training(rows, layer.kernel, layer.bias)
    elif is_wanted(INT8_PRODUCTS):
        y = fused_int8.int8_linear(rows, layer.kernel, layer.bias)
    else:
        y = tf.matmul(rows, layer.kernel)
        y = tf.nn.bias_add(y, tf.cast(layer.bias, y.dtype))
    if layer.lora:
        y += tf.matmul(tf.matmul(rows, layer.lora_a), layer.lora_b) * tf.cast(layer.lora.scale, y.dtype)
    y = activation(layer.activation, training)(y)
    return tf.reshape(y, tf.concat([tf.shape(x)[:-1], [layer.units]], 0)) if x.shape.rank != 2 else y


def _adapter_start():
    """A's start, with which B's zeros make an adapter that does nothing yet: uniform up to 1 / sqrt(in).

    The paper (section 4.1) says "random Gaussian"; this is what its authors' code and PEFT do.
    """
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


@keras.saving.register_keras_serializable(_PACKAGE)
class LayerNorm(ConfiguredLayer):
    """Layer normalization over the last axis (Ba et al. 2016), in float32 whatever comes in.

    Args:
        epsilon: added to the variance; `EncoderConfig.layer_norm_eps`.

    Input: float [..., H]. Output: the same shape, in the compute dtype.
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(autocast=False, **kwargs)  # Keras would round a float32 input to the compute dtype first
        self.epsilon = epsilon

    def build(self, input_shape):
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros", autocast=False)

    def call(self, x):
        return layer_norm(x, self.gamma, self.beta, self.epsilon, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@contextlib.contextmanager
def seed_scope(seed):
    """Makes every Dropout inside draw from `seed`, int32 [2], and from its own name: the same seed, the same masks.

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


@keras.saving.register_keras_serializable(_PACKAGE)
class Dropout(ConfiguredLayer):
    """Zeroes a share `rate` of the numbers while training and scales the others by 1 / (1 - rate).

    keras.layers.Dropout keeps its random state in a variable of each layer; here the masks are a function of the
    `seed_scope` and the layer's path, so nothing need be saved to repeat them.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def build(self, input_shape):
        self.site = np.int32(zlib.crc32(self.path.encode()) & 0x7FFFFFFF)

    def call(self, x, training=None):
        if not training or not self.rate:
            return x
        seed = current_seed() + tf.stack([self.site, 0])
        return dropout(x, self.rate, seed)

    def compute_output_shape(self, input_shape):
        return input_shape
