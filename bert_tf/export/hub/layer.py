"""A SavedModel of TF Hub's API as a Keras 3 layer, which `tensorflow_hub` and its KerasLayer do not support."""

import inspect
import os
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.export.hub import graph_check, layer_files
from bert_tf.export.hub.saved_variables import Variable, described_variables, load_saved_model, make_variables
from bert_tf.export.hub.symbols import parse_structure, structure_to_json, symbol_of, tensor_spec
from bert_tf.utils.files import path_text

_GRAPH, _ASSETS = "saved_model.pb", "assets"


@keras.saving.register_keras_serializable("bert_tf")
class HubLayer(keras.layers.Layer):
    """Keras layer that runs an encoder or preprocessor of TF Hub's text API, ours or Google's.

        text = keras.Input((), dtype="string")
        inputs = bert_tf.HubLayer("bert_en_uncased_preprocess_3")(text)
        vector = bert_tf.HubLayer("bert_en_uncased_L-12_H-768_A-12_4", trainable=True)(inputs)["pooled_output"]
        model = keras.Model(text, keras.layers.Dense(2)(vector))

    `model.save` writes graph, files and weights into the .keras file, which then no longer needs the directory.

    A SavedModel in a directory is a program that runs with your permissions. Inspect untrusted ones first with
    `bert-tf verify MODEL --inspect`. One in a .keras file is rejected if it has side effects.

    Inputs and outputs are those of the SavedModel. `training` is passed to it if it has that parameter, and only while
    the layer is `trainable`, as with hub.KerasLayer; the same goes for its regularization losses. Its variables keep
    their own types under mixed precision.

    Args:
        path: directory with saved_model.pb.
        part: name of a component to run instead of the whole: "mlm", "tokenize", "bert_pack_inputs".
        arguments: additional arguments of each call: {"seq_length": 64} for "bert_pack_inputs".
        trainable: whether training updates the variables that the SavedModel marks as trainable.

    Raises:
        ValueError: there is no SavedModel of TensorFlow 2, it lacks `part`, or the component cannot be called.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        part: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        trainable: bool = False,
        **kwargs: Any,
    ) -> None:
        files = _files_in(path_text(path))
        described = described_variables(graph_check.read_graph(files.folder), part)
        self._begin(part, arguments, trainable, files.fingerprint, described, {}, **kwargs)
        self._take(files, with_values=True)

    def _begin(self, part, arguments, trainable, fingerprint, described, outputs, **kwargs):
        """Sets everything except the SavedModel, which may be added later.

        Args:
            fingerprint: fingerprint of its files.
            described: its variables.
            outputs: of symbolic calls, by their inputs: a model is rebuilt before the files are loaded.
        """
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.part, self.arguments = part, dict(arguments or {})
        self.supports_jit = False  # XLA supports neither strings nor unknown graphs
        self._fingerprint, self._described, self._outputs = fingerprint, tuple(described), dict(outputs)
        self._made = make_variables(self.name, described)
        self._files = self._loaded = self._function = None
        self.built = True
        # As `add_weight` would do, so that Keras tracks which variables are trainable.
        for variable in self._made:
            variable.trainable = variable.trainable and trainable

    def _take(self, files, with_values):
        self._loaded = load_saved_model(files.folder, self._described, self._made, with_values)
        self._function = _function(self._loaded, self.part, files.folder)
        self._takes_training = "training" in _parameters(self._function)
        self._files = files
        layer_files.remember(files.fingerprint, files)

    def call(self, inputs, training=None):
        if self.trainable and self._loaded is not None:
            for loss in getattr(_part(self._loaded, self.part), "regularization_losses", ()):
                self.add_loss(loss())
        return self._run(inputs, training)

    def _run(self, inputs, training):
        if self._function is None:
            raise ValueError(
                f"The layer {self.name!r} was called without its SavedModel, which is in its model's .keras file. "
                "Load that file, or create the layer from the directory: `HubLayer(path)`."
            )
        training = {"training": bool(training and self.trainable)} if self._takes_training else {}
        return self._function(inputs, **training, **self.arguments)

    def compute_output_spec(self, inputs, training=None):
        key = structure_to_json(inputs)
        if key not in self._outputs:
            specs = keras.tree.map_structure(tensor_spec, inputs)  # Keras would treat ragged tensors as dense ones
            traced = tf.function(lambda x: self._run(x, False), autograph=False).get_concrete_function(specs)
            outputs = keras.tree.map_structure(symbol_of, traced.structured_outputs)
            self._outputs[key] = structure_to_json(outputs)
        return parse_structure(self._outputs[key])

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "part": self.part,
            "arguments": dict(self.arguments),
            "fingerprint": self._fingerprint,
            "described": [list(variable) for variable in self._described],
            "outputs": dict(self._outputs),
        }

    @classmethod
    def from_config(cls, config):
        """Creates the layer that `get_config` described.

        It gets its SavedModel at once if this process has read the same one before, otherwise from `load_assets`.
        """
        layer = cls.__new__(cls)
        described = [Variable(*each) for each in config["described"]]
        layer._begin(**(dict(config) | {"described": described}))
        files = layer_files.find_remembered(layer._fingerprint)
        if files is not None and files.unchanged():
            layer._take(files, with_values=os.path.isdir(os.path.join(files.folder, "variables")))
        return layer

    def save_assets(self, dir_path):
        """Writes the SavedModel without its variables, which are the layer's weights; Keras calls it."""
        if self._files is None or not self._files.unchanged():
            raise ValueError(
                f"Cannot save the layer {self.name!r}: its SavedModel has changed or is missing in "
                f"{self._files and self._files.folder}. Restore it and save the model again."
            )
        self._files.copy_to(dir_path)

    def load_assets(self, dir_path):
        """Reads the files of `save_assets`, after the weights; Keras calls it.

        Raises:
            ValueError: there is no SavedModel, it belongs to another layer, or it has side effects.
        """
        if self._function is not None:
            return
        graph_check.check_saved_model(dir_path or "")  # first: it determines which files may be read at all
        files = _files_in(dir_path or "")
        if files.fingerprint != self._fingerprint:
            raise ValueError(
                f"The files of the layer {self.name!r} differ from those that it was saved with. Save the "
                "model again."
            )
        self._take(files.copy(), with_values=False)


def _files_in(folder):
    """Returns a SavedModel's files, except its variables."""
    graph = graph_check.read_graph(folder)
    names = {os.path.join(_ASSETS, asset.filename) for asset in graph.asset_file_def}
    return layer_files.Files(folder, [_GRAPH, *names])


def _part(loaded, part):
    return getattr(loaded, part, None) if part else loaded


def _function(loaded, part, folder):
    function = _part(loaded, part)
    if not callable(function):
        there = sorted(name for name in vars(loaded) if not name.startswith("_") and callable(getattr(loaded, name)))
        what = f"no part {part!r}; it has {there}" if part else f"no function of its own; pass a `part` of it, {there}"
        raise ValueError(
            "The SavedModel cannot be called: "
            f"{folder} has {what}."
        )
    return function


def _parameters(function):
    """Returns the parameter names of a loaded function, or of an object that has one."""
    is_one = isinstance(function, tf.types.experimental.PolymorphicFunction)
    return inspect.signature(function if is_one else function.__call__).parameters
