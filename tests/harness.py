"""One call proves that a layer keeps its promises: `check_layer`."""

import json

import keras
import numpy as np
import tensorflow as tf
from keras import tree


def check_layer(
    layer_class, init_kwargs, inputs, weights, tmp_path, unmoved=(), half_dtype="bfloat16", half_tolerance=0.03
):
    """Asserts all that a Keras layer of ours promises.

    Args:
        layer_class: the layer's class; the layer must be registered as serializable.
        init_kwargs: arguments of its constructor, which `get_config` must give back.
        inputs: tuple of the positional arguments of `call`: arrays, or dicts of arrays; the first axis is the batch.
        weights: path -> shape of every weight.
        tmp_path: a folder for a .keras file.
        unmoved: endings of the paths of weights whose true gradient is zero.
        half_dtype: dtype of the output under mixed_bfloat16.
        half_tolerance: how far, as a share of the largest value, that output may be from the float32 one.

    Returns:
        the layer, built and called, with random weights.
    """
    keras.utils.set_random_seed(0)  # how far bfloat16 is off depends on the weights
    layer = layer_class(**init_kwargs)
    _check_config(layer, init_kwargs)
    symbolic_inputs = tree.map_structure(_symbol, inputs)
    symbolic, eager = layer(*symbolic_inputs), layer(*inputs)
    _check_weights(layer, weights)
    _check_shapes(symbolic, eager)
    eager = layer(*inputs)  # now with the random weights
    model = keras.Model(tree.flatten(symbolic_inputs), tree.flatten(symbolic))
    _check_saving(model, inputs, eager, tmp_path / "layer.keras")
    _check_half(layer, init_kwargs, inputs, eager, half_dtype, half_tolerance)
    _check_pure_half(layer, init_kwargs, inputs, eager, half_dtype)
    _check_frozen(layer, init_kwargs, inputs)
    _check_fit(model, layer, inputs, eager, unmoved)
    return layer


def randomize(layer, seed=0):
    """Adds noise to every weight: zero biases and gammas of one would hide a mistake."""
    rng = np.random.default_rng(seed)
    for variable in layer.variables:
        noise = 0.2 * rng.standard_normal(variable.shape)
        variable.assign(variable.value.numpy() + noise)


def numbers(tensor):
    """Returns a tensor of any floating type as float32 numpy; the gradient of a table, which is sparse, too."""
    return tf.cast(tf.convert_to_tensor(tensor), tf.float32).numpy()


def relative_error(value, true):
    """Returns the largest difference as a share of the largest true value."""
    return np.abs(numbers(value) - numbers(true)).max() / np.abs(numbers(true)).max()


def _symbol(array):
    """Every axis may vary but the last one of numbers that are not ids."""
    whole = np.issubdtype(array.dtype, np.integer)
    axes = [None] * array.ndim if whole else [None] * (array.ndim - 1) + [array.shape[-1]]
    return keras.Input(batch_shape=axes, dtype=str(array.dtype))


def _check_config(layer, init_kwargs):
    config = layer.get_config()
    assert init_kwargs.items() <= config.items()
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config


def _check_weights(layer, weights):
    assert {v.path: tuple(v.shape) for v in layer.variables} == weights
    assert len(layer.trainable_variables) == len(layer.variables) == len(weights)
    randomize(layer)


def _check_shapes(symbolic, eager):
    tree.assert_same_structure(symbolic, eager)
    for symbol, tensor in zip(tree.flatten(symbolic), tree.flatten(eager), strict=True):
        assert symbol.dtype == tensor.dtype.name
        assert len(symbol.shape) == len(tensor.shape)
        assert all(s in (None, t) for s, t in zip(symbol.shape, tensor.shape, strict=True))


def _check_saving(model, inputs, eager, path):
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert [v.path for v in loaded.variables] == [v.path for v in model.variables]
    for ours, theirs in zip(tree.flatten(eager), tree.flatten(loaded(tree.flatten(inputs))), strict=True):
        np.testing.assert_allclose(numbers(theirs), numbers(ours), rtol=1e-6, atol=1e-6)


def _check_half(layer, init_kwargs, inputs, eager, dtype, tolerance):
    """By the policy of the whole process, as programs set it: what a layer makes inside itself has it too."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        half = type(layer)(**init_kwargs)
        half(*inputs)
        assert all(v.dtype == "float32" for v in half.variables)
        half.set_weights(layer.get_weights())
        for ours, true in zip(tree.flatten(half(*inputs)), tree.flatten(eager), strict=True):
            assert ours.dtype.name == dtype
            assert relative_error(ours, true) < tolerance
    finally:
        keras.config.set_dtype_policy(before)


def _check_pure_half(layer, init_kwargs, inputs, eager, dtype):
    """Weights in 16 bits too: they lose digits, and nothing mixes with float32 by mistake, eagerly or in a graph."""
    for policy, traced in (("bfloat16", True), ("float16", False)):
        half = type(layer)(**init_kwargs, dtype=policy)
        half(*inputs)
        assert {v.dtype for v in half.variables} <= {policy}
        half.set_weights(layer.get_weights())
        call = tf.function(half, autograph=False) if traced else half
        for ours, true in zip(tree.flatten(call(*inputs)), tree.flatten(eager), strict=True):
            assert ours.dtype.name == (policy if dtype == "bfloat16" else dtype)
            assert relative_error(ours, true) < 0.1


def _check_frozen(layer, init_kwargs, inputs):
    """A model around a frozen layer trains none of it, however it was frozen, and whatever was copied."""
    frozen = type(layer)(**init_kwargs, trainable=False)
    later = type(layer)(**init_kwargs)
    later.trainable = False
    unbuilt = type(layer).from_config(json.loads(json.dumps(later.get_config())))
    for each in (frozen, later, unbuilt):
        symbols = tree.map_structure(_symbol, inputs)
        model = keras.Model(tree.flatten(symbols), tree.flatten(each(*symbols)))
        assert [v.path for v in model.trainable_variables] == []
    frozen.trainable = True
    assert len(frozen.trainable_variables) == len(layer.trainable_variables)


def _check_fit(model, layer, inputs, eager, unmoved):
    """Training towards noise gives every weight a gradient."""
    rng = np.random.default_rng(1)
    targets = [rng.standard_normal(y.shape).astype(np.float32) for y in tree.flatten(eager)]
    before = {v.path: v.value.numpy() for v in layer.trainable_variables}
    model.compile(keras.optimizers.SGD(0.1), loss=["mse"] * len(targets), jit_compile=False)
    history = model.fit(tree.flatten(inputs), targets, epochs=1, batch_size=len(targets[0]), verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for variable in layer.trainable_variables:
        moved = np.abs(variable.value.numpy() - before[variable.path]).max()
        assert (moved > 1e-6) == (not variable.path.endswith(tuple(unmoved))), (variable.path, moved)
