"""Small random weights and variables for the tests of checkpoints."""

import contextlib
import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

from bert_tf.checkpoints.names import family_mappings

BASE = json.loads((pathlib.Path(__file__).parent / "tf1_base_names.json").read_text(encoding="utf-8"))
# The base model's shapes with every measure made small: vocabulary, feed-forward, hidden, positions.
_SMALL = {30522: 11, 3072: 12, 768: 4, 512: 7}


class FakeVariable:
    """What `assign_weights` asks of a variable."""

    def __init__(self, path, shape):
        self.path, self.shape, self.value = path, tuple(shape), None

    def assign(self, value):
        assert value.shape == self.shape
        self.value = value


def pretraining_weights(layers=2, seed=0):
    """Returns our path -> float32 array, for the pretraining model (encoder, pooler, both heads)."""
    rng = np.random.default_rng(seed)
    shapes = {name: [_SMALL.get(n, n) for n in shape] for name, shape in BASE.items()}
    return {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
        if not any(f"/layer_{n}/" in name for n in range(layers, 12))
    }


def variables_for(weights):
    return [FakeVariable(path, array.shape) for path, array in weights.items()]


def keras_variables_for(weights):
    """Returns Keras variables with those paths and values, made in nested name scopes as layers make them."""
    import keras

    variables = []
    for path, array in weights.items():
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            variables.append(keras.Variable(array, name=name))
    assert [v.path for v in variables] == list(weights)
    return variables


def to_hugging_face(weights, prefix="bert."):
    """Returns the weights under Hugging Face's names, in torch's orientation."""
    result = {}
    for path, array in weights.items():
        name = family_mappings.hugging_face().from_ours(path)
        name = name if prefix else name.removeprefix("bert.")
        result[name] = np.ascontiguousarray(array.T) if family_mappings.hugging_face().transposed(path) else array
    return result


def save_hugging_face(folder, tensors):
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
