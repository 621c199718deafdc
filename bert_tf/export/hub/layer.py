"""A SavedModel of TF Hub's API as a layer of Keras 3, which `tensorflow_hub` and its KerasLayer do not know."""

import contextlib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401  preprocessors hold its operations

from bert_tf.export.hub import graph_check, tokenizer_layer
from bert_tf.utils.tensorflow_internals import load_partial

# === Symbols ===
# Shapes and types of tensors in nested structures: as Keras has them, as TensorFlow, and as JSON.


def tensor_spec(symbol):
    """Returns the TensorFlow type of a KerasTensor."""
    if symbol.ragged:
        return tf.RaggedTensorSpec(symbol.shape, symbol.dtype, symbol.ragged_rank)
    return tf.TensorSpec(symbol.shape, symbol.dtype)


def symbol_of(output):
    """Returns the KerasTensor of what a traced function returns: a TensorFlow type, or a ragged tensor of the graph."""
    spec = output if isinstance(output, tf.TypeSpec) else tf.type_spec_from_value(output)
    if isinstance(spec, tf.RaggedTensorSpec):
        return keras.KerasTensor(spec.shape, spec.dtype.name, ragged=True, ragged_rank=spec.ragged_rank)
    return keras.KerasTensor(spec.shape, spec.dtype.name)


def structure_to_json(symbols) -> str:
    """Returns a structure of KerasTensors as JSON; the same for the same shapes and types."""
    return json.dumps(_to_plain(symbols), sort_keys=True)


def parse_structure(text: str):
    """Returns the structure that `structure_to_json` wrote."""
    return _to_symbols(json.loads(text))


def _to_plain(symbols):
    if isinstance(symbols, Mapping):
        return {"dict": {name: _to_plain(value) for name, value in symbols.items()}}
    if isinstance(symbols, (list, tuple)):
        return {"list": [_to_plain(value) for value in symbols]}
    return {"shape": list(symbols.shape), "dtype": symbols.dtype, "ragged_rank": symbols.ragged_rank}


def _to_symbols(plain):
    if "dict" in plain:
        return {name: _to_symbols(value) for name, value in plain["dict"].items()}
    if "list" in plain:
        return [_to_symbols(value) for value in plain["list"]]
    rank = plain["ragged_rank"]
    return keras.KerasTensor(plain["shape"], plain["dtype"], ragged=rank is not None, ragged_rank=rank)


# === Variables ===
# The variables of a SavedModel as one of Keras's layers has them.


class Variable(NamedTuple):
    """A variable as a SavedModel's graph describes it.

    Attributes:
        node: where it hangs: "root.trainable_variables.0".
        path: its name, with slashes between scopes.
        shape, dtype: as Keras has them.
        trainable: whether training may change it.
    """

    node: str
    path: str
    shape: Sequence[int]
    dtype: str
    trainable: bool


def described_variables(graph, part: str | None) -> list[Variable]:
    """Returns the variables of all objects in a MetaGraphDef, each once.

    Which of them train, the root says in its list `trainable_variables`, or the `part` of it; else they do themselves.
    """
    nodes, variables = graph.object_graph_def.nodes, []
    trains = _trainable_nodes(nodes, part)
    for node_id, node_path in _node_paths(nodes).items():
        if nodes[node_id].WhichOneof("kind") == "variable":
            variable = nodes[node_id].variable
            shape = [dimension.size for dimension in variable.shape.dim]
            trainable = bool(variable.trainable if trains is None else node_id in trains)
            name, dtype = variable.name or "variable", tf.as_dtype(variable.dtype).name
            variables.append(Variable(node_path, name, shape, dtype, trainable))
    return variables


def make_variables(layer: str, variables: Sequence[Variable]) -> list[keras.Variable]:
    """Returns variables of Keras below the name of a layer, full of zeros."""
    return [_make_variable(layer, variable) for variable in variables]


def load_saved_model(folder: str, variables: Sequence[Variable], values: Sequence[keras.Variable], with_values: bool):
    """Returns the object in a SavedModel's folder; its variables are `values`, which take the saved ones' values if
    `with_values`."""
    nodes = {variable.node: value.value for variable, value in zip(variables, values, strict=True)}
    options = tf.saved_model.LoadOptions(experimental_skip_checkpoint=not with_values)
    if not nodes:
        return tf.saved_model.load(folder, options=options)
    # What Keras loads its own SavedModels with: objects that are there already take the places of those in the graph.
    return load_partial(folder, {"root": None, **nodes}, options=options)["root"]


def _node_paths(nodes):
    """Returns node -> where it hangs, the shortest way first."""
    paths, open_ = {0: "root"}, [0]
    for node_id in open_:
        for child in nodes[node_id].children:
            if child.node_id not in paths:
                paths[child.node_id] = f"{paths[node_id]}.{child.local_name}"
                open_.append(child.node_id)
    return paths


def _trainable_nodes(nodes, part):
    """Returns the nodes of the list of trainable variables, or None if there is none."""
    node = nodes[0]
    for name in [*([part] if part else []), "trainable_variables"]:
        child = next((child.node_id for child in node.children if child.local_name == name), None)
        if child is None:
            return None
        node = nodes[child]
    return {child.node_id for child in node.children}


def _make_variable(layer, variable):
    *scopes, name = [part for part in variable.path.split("/") if part]
    with contextlib.ExitStack() as stack:
        for scope in (layer, *scopes):
            stack.enter_context(keras.name_scope(scope))
        options = {"dtype": variable.dtype, "trainable": variable.trainable, "autocast": False, "name": name}
        return keras.Variable("zeros", tuple(variable.shape), **options)


# === Layer ===


_GRAPH, _ASSETS = "saved_model.pb", "assets"


@keras.saving.register_keras_serializable("bert_tf")
class HubLayer(keras.layers.Layer):
    """Keras layer that runs an encoder or preprocessor of TF Hub's text API, ours or Google's.

        text = keras.Input((), dtype="string")
        inputs = bert_tf.HubLayer("bert_en_uncased_preprocess_3")(text)
        vector = bert_tf.HubLayer("bert_en_uncased_L-12_H-768_A-12_4", trainable=True)(inputs)["pooled_output"]
        model = keras.Model(text, keras.layers.Dense(2)(vector))

    `model.save` writes graph, files and weights into the .keras file, which then needs the folder no more.

    A SavedModel in a folder is a program, which runs with your rights: look at a stranger's first, with
    `bert-tf verify MODEL --inspect`. One in a .keras file is refused unless it only computes.

    Inputs and outputs are those of the SavedModel. `training` reaches it where it takes that, and only while the layer
    is `trainable`, as with hub.KerasLayer; so do its regularization losses. Its variables keep their own types under
    mixed precision.

    Args:
        path: folder with saved_model.pb.
        part: the name of a part to run instead of the whole: "mlm", "tokenize", "bert_pack_inputs".
        arguments: more arguments of each call: {"seq_length": 64} for "bert_pack_inputs".
        trainable: whether training changes the variables that the SavedModel calls trainable.

    Raises:
        ValueError: there is no SavedModel of TensorFlow 2, it has no such part, or none that can be called.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        part: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        trainable: bool = False,
        **kwargs,
    ):
        files = _files_in(os.fspath(path))
        described = described_variables(graph_check.read_graph(files.folder), part)
        self._begin(part, arguments, trainable, files.fingerprint, described, {}, **kwargs)
        self._take(files, with_values=True)

    def _begin(self, part, arguments, trainable, fingerprint, described, outputs, **kwargs):
        """All but the SavedModel, which may come later.

        Args:
            fingerprint: of its files.
            described: its variables.
            outputs: of symbolic calls, by their inputs: a model is rebuilt before the files are there.
        """
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.part, self.arguments = part, dict(arguments or {})
        self.supports_jit = False  # neither strings nor what others wrote
        self._fingerprint, self._described, self._outputs = fingerprint, tuple(described), dict(outputs)
        self._made = make_variables(self.name, described)
        self._files = self._loaded = self._function = None
        self.built = True
        # As `add_weight` would: Keras has noted which ones can be trained, and a model around this asks each of them.
        for variable in self._made:
            variable.trainable = variable.trainable and trainable

    def _take(self, files, with_values):
        self._loaded = load_saved_model(files.folder, self._described, self._made, with_values)
        self._function = _function(self._loaded, self.part, files.folder)
        self._takes_training = "training" in _parameters(self._function)
        self._files = files
        tokenizer_layer.remember(files.fingerprint, files)

    def call(self, inputs, training=None):
        if self.trainable and self._loaded is not None:
            for loss in getattr(_part(self._loaded, self.part), "regularization_losses", ()):
                self.add_loss(loss())
        return self._run(inputs, training)

    def _run(self, inputs, training):
        if self._function is None:
            raise ValueError(
                f"The layer {self.name!r} must have its SavedModel, which lies in the .keras file of its model. "
                "Received a call without; load that file, or make the layer from the folder, `HubLayer(path)`."
            )
        training = {"training": bool(training and self.trainable)} if self._takes_training else {}
        return self._function(inputs, **training, **self.arguments)

    def compute_output_spec(self, inputs, training=None):
        key = structure_to_json(inputs)
        if key not in self._outputs:
            specs = keras.tree.map_structure(tensor_spec, inputs)  # Keras would take ragged tensors for dense ones
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
        """Makes the layer that `get_config` described.

        It has its SavedModel at once where this process has read the same already; else once `load_assets` brings it.
        """
        layer = cls.__new__(cls)
        described = [Variable(*each) for each in config["described"]]
        layer._begin(**(dict(config) | {"described": described}))
        files = tokenizer_layer.find_remembered(layer._fingerprint)
        if files is not None and files.unchanged():
            layer._take(files, with_values=os.path.isdir(os.path.join(files.folder, "variables")))
        return layer

    def save_assets(self, dir_path):
        """Writes the SavedModel without its variables, which are the layer's weights; Keras calls it."""
        if self._files is None or not self._files.unchanged():
            raise ValueError(
                f"The SavedModel of the layer {self.name!r} must be there, as it was, when its model is saved. "
                f"Received a changed or missing one in {self._files and self._files.folder}; put it back."
            )
        self._files.copy_to(dir_path)

    def load_assets(self, dir_path):
        """Reads what `save_assets` wrote, after the weights; Keras calls it.

        Raises:
            ValueError: there is none, it is another layer's, or it does more than compute.
        """
        if self._function is not None:
            return
        graph_check.check_saved_model(dir_path or "")  # first: it says which files may be read at all
        files = _files_in(dir_path or "")
        if files.fingerprint != self._fingerprint:
            raise ValueError(
                f"The files of the layer {self.name!r} must be those that it was saved with. Received others; save the "
                "model again."
            )
        self._take(files.copy(), with_values=False)


def _files_in(folder):
    """Returns a SavedModel's files but its variables."""
    graph = graph_check.read_graph(folder)
    names = {os.path.join(_ASSETS, asset.filename) for asset in graph.asset_file_def}
    return tokenizer_layer.Files(folder, [_GRAPH, *names])


def _part(loaded, part):
    return getattr(loaded, part, None) if part else loaded


def _function(loaded, part, folder):
    function = _part(loaded, part)
    if not callable(function):
        there = sorted(name for name in vars(loaded) if not name.startswith("_") and callable(getattr(loaded, name)))
        what = f"no part {part!r}; it has {there}" if part else f"no function of its own; take a `part` of it, {there}"
        raise ValueError(
            "A SavedModel of TF Hub's API must be one that can be called, or have the `part` asked for. Received "
            f"{folder} with {what}."
        )
    return function


def _parameters(function):
    """Returns the names of the parameters of what was loaded: a function, or an object that has one."""
    is_one = isinstance(function, tf.types.experimental.PolymorphicFunction)
    return inspect.signature(function if is_one else function.__call__).parameters
