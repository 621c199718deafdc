"""The variables of a SavedModel as one of Keras's layers has them."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf


class Variable(NamedTuple):
    """What a SavedModel's graph says of a variable.

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


def described(graph, part: str | None) -> list[Variable]:
    """Returns the variables of all objects in a MetaGraphDef, each once.

    Which of them train, the root says in its list `trainable_variables`, or the `part` of it; else they do themselves.
    """
    nodes, variables = graph.object_graph_def.nodes, []
    trains = _listed(nodes, part)
    for node_id, place in _places(nodes).items():
        if nodes[node_id].WhichOneof("kind") == "variable":
            said = nodes[node_id].variable
            shape = [dimension.size for dimension in said.shape.dim]
            trainable = said.trainable if trains is None else node_id in trains
            variables.append(
                Variable(place, said.name or "variable", shape, tf.as_dtype(said.dtype).name, bool(trainable))
            )
    return variables


def made(layer: str, variables: Sequence[Variable]) -> list[keras.Variable]:
    """Returns variables of Keras below the name of a layer, full of zeros."""
    return [_made(layer, variable) for variable in variables]


def load(folder: str, variables: Sequence[Variable], values: Sequence[keras.Variable], with_values: bool):
    """Returns the object in a SavedModel's folder; its variables are `values`, which take the saved ones' values if
    `with_values`."""
    nodes = {variable.node: value.value for variable, value in zip(variables, values, strict=True)}
    options = tf.saved_model.LoadOptions(experimental_skip_checkpoint=not with_values)
    if not nodes:
        return tf.saved_model.load(folder, options=options)
    # What Keras loads its own SavedModels with: objects that are there already take the places of those in the graph.
    return tf.__internal__.saved_model.load_partial(folder, {"root": None, **nodes}, options=options)["root"]


def _places(nodes):
    """Returns node -> where it hangs, the shortest way first."""
    places, open_ = {0: "root"}, [0]
    for node_id in open_:
        for child in nodes[node_id].children:
            if child.node_id not in places:
                places[child.node_id] = f"{places[node_id]}.{child.local_name}"
                open_.append(child.node_id)
    return places


def _listed(nodes, part):
    """Returns the nodes of the list of trainable variables; None where there is none."""
    node = nodes[0]
    for name in [*([part] if part else []), "trainable_variables"]:
        child = next((child.node_id for child in node.children if child.local_name == name), None)
        if child is None:
            return None
        node = nodes[child]
    return {child.node_id for child in node.children}


def _made(layer, variable):
    *scopes, name = [part for part in variable.path.split("/") if part]
    with contextlib.ExitStack() as stack:
        for scope in (layer, *scopes):
            stack.enter_context(keras.name_scope(scope))
        options = {"dtype": variable.dtype, "trainable": variable.trainable, "autocast": False, "name": name}
        return keras.Variable("zeros", tuple(variable.shape), **options)
