"""The variables of a SavedModel as variables of a Keras layer."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.utils.tensorflow_internals import load_partial


class Variable(NamedTuple):
    """A variable as a SavedModel's graph describes it.

    Attributes:
        node: path in the object tree: "root.trainable_variables.0".
        path: its name, with slashes between scopes.
        shape, dtype: as in Keras.
        trainable: whether training may change it.
    """

    node: str
    path: str
    shape: Sequence[int]
    dtype: str
    trainable: bool


def described_variables(graph, part: str | None) -> list[Variable]:
    """Returns the variables of all objects in a MetaGraphDef, without duplicates.

    The list `trainable_variables` of the root, or of its `part`, determines which are trainable; otherwise, they do so
    themselves.
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
    """Returns Keras variables below the name of a layer, initialized to zeros."""
    return [_make_variable(layer, variable) for variable in variables]


def load_saved_model(folder: str, variables: Sequence[Variable], values: Sequence[keras.Variable], with_values: bool):
    """Returns the object in a SavedModel's folder; its variables are `values`, which take the saved ones' values if
    `with_values`."""
    nodes = {variable.node: value.value for variable, value in zip(variables, values, strict=True)}
    options = tf.saved_model.LoadOptions(experimental_skip_checkpoint=not with_values)
    if not nodes:
        return tf.saved_model.load(folder, options=options)
    # Keras loads its own SavedModels with this: existing objects replace those in the graph.
    return load_partial(folder, {"root": None, **nodes}, options=options)["root"]


def _node_paths(nodes):
    """Returns node -> its path in the object tree, the shortest one."""
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
