"""Element-wise chains whose gradients are written by hand and compiled by XLA, one small kernel each.

On a CPU the matrix products belong to oneDNN: a step that is compiled whole with XLA loses them. But GELU's and layer
norm's gradients are some ten passes over memory when TensorFlow runs them op by op, and one pass when compiled. So only
these are compiled while training; inference uses plain ops, which oneDNN fuses and which every TensorFlow Serving
accepts. Inside a step that is itself compiled they melt into it.
"""

import contextlib

import numpy as np
import tensorflow as tf

_compile = True


@contextlib.contextmanager
def plain_ops():
    """Inside, gradients are the same formulas without any XLA: what `--use_xla=false` asks for."""
    global _compile
    before, _compile = _compile, False
    try:
        yield
    finally:
        _compile = before


def _kernel(function):
    """Returns `function`, compiled by XLA unless the graph is being traced inside `plain_ops`."""
    compiled = tf.function(function, jit_compile=True)
    return lambda *args: (compiled if _compile else function)(*args)


@_kernel
def _erf_forward(x):
    z = tf.cast(x, tf.float32)
    return tf.cast(0.5 * z * (1 + tf.math.erf(z * np.float32(np.sqrt(0.5)))), x.dtype)


@_kernel
def _erf_backward(x, dy):
    z = tf.cast(x, tf.float32)
    slope = 0.5 * (1 + tf.math.erf(z * np.float32(np.sqrt(0.5)))) + z * tf.exp(-0.5 * z * z) * np.float32(0.5 / np.pi) ** 0.5
    return tf.cast(tf.cast(dy, tf.float32) * slope, x.dtype)


_TANH_SCALE, _TANH_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


@_kernel
def _tanh_forward(x):
    z = tf.cast(x, tf.float32)
    return tf.cast(0.5 * z * (1 + tf.tanh(_TANH_SCALE * (z + _TANH_CUBE * z * z * z))), x.dtype)


@_kernel
def _tanh_backward(x, dy):
    z = tf.cast(x, tf.float32)
    t = tf.tanh(_TANH_SCALE * (z + _TANH_CUBE * z * z * z))
    slope = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * z * z)
    return tf.cast(tf.cast(dy, tf.float32) * slope, x.dtype)


def gelu(x, approximate):
    """GELU (Hendrycks and Gimpel 2016) of a float tensor: the erf form, or Google's tanh form where `approximate`."""
    forward, backward = (_tanh_forward, _tanh_backward) if approximate else (_erf_forward, _erf_backward)

    @tf.custom_gradient
    def run(z):
        return forward(z), lambda dy: backward(z, dy)

    return run(x)


def layer_norm(x, gamma, beta, epsilon, dtype):
    """Normalizes the last axis in float32 and returns `dtype`."""
    z = tf.cast(x, tf.float32)
    z -= tf.reduce_mean(z, -1, keepdims=True)
    variance = tf.reduce_mean(z * z, -1, keepdims=True)
    return tf.cast(z * tf.math.rsqrt(variance + epsilon) * gamma + beta, dtype)
