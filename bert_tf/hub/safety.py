"""What a SavedModel from somebody else's file must not do: read or write files, reach the network, run Python.

A `.keras` file is opened without a second thought, as Keras promises that it runs nobody's code; so this is looked at
before the graph inside is.
"""

import os
import re

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

# By the names of TensorFlow's operations. Datasets and iterators can read files and ask other machines.
_FORBIDDEN = re.compile(
    r".*(File|PyFunc|Dataset|Iterator|Reader|Save|Restore|Checkpoint|Summary|Snapshot|Remap|Proto|RecordInput|Import|"
    r"Send|Recv|Remote|Rpc|Collective|DebugIdentity|DebugNan|DebugNumeric|TPU).*|Print|PrintV2|Abort"
)
_HARMLESS = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")  # a vocabulary, of the model's own files


def check(folder: str):
    """Raises ValueError where the functions of the SavedModel in `folder` hold such an operation, or lead out of it.

    What saves and restores variables is not looked at: loading does it without those functions.
    """
    graph = read_graph(folder)
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    used = {name for function in _reachable(functions, _roots(graph)) for name in _operations(functions[function])}
    wrong = sorted(name for name in used if _FORBIDDEN.fullmatch(name) and name not in _HARMLESS)
    assets = [asset.filename for asset in graph.asset_file_def]
    wrong += [name for name in assets if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/")]
    if wrong:
        raise ValueError(
            "A saved layer must hold a SavedModel that only computes. Received one with "
            f"{', '.join(wrong[:5])}; if you trust it, make the layer from its folder, "
            "`HubLayer(path)`, build the model around it, and call `load_weights`."
        )


def read_graph(folder: str):
    """Returns the MetaGraphDef of the SavedModel in a folder.

    Raises:
        ValueError: there is none, or it is not TensorFlow 2's.
    """
    path = os.path.join(folder, "saved_model.pb")
    if not os.path.isfile(path):
        raise ValueError(
            f"The folder of a SavedModel must hold saved_model.pb. There is none in {folder}; name the folder that "
            "holds it."
        )
    saved = saved_model_pb2.SavedModel()
    try:
        with open(path, "rb") as file:
            saved.ParseFromString(file.read())
    except DecodeError as error:
        raise ValueError(f"{path} must be a SavedModel's graph. Received: {error}; is the file whole?") from error
    if len(saved.meta_graphs) != 1 or not saved.meta_graphs[0].HasField("object_graph_def"):
        raise ValueError(
            f"{path} must be a SavedModel of TensorFlow 2, with objects. Received one of TensorFlow 1, a hub.Module "
            "perhaps; take the model's newer version."
        )
    return saved.meta_graphs[0]


def _roots(graph):
    """Returns the functions that an object can run, and those of gradients."""
    library = graph.graph_def.library
    yield from graph.object_graph_def.concrete_functions
    yield from (gradient.gradient_func for gradient in library.gradient)
    yield from (gradient.gradient_func for gradient in library.registered_gradients)


def _reachable(functions, roots):
    seen, open_ = set(), list(roots)
    while open_:
        name = open_.pop()
        if name in functions and name not in seen:
            seen.add(name)
            open_ += _operations(functions[name])
            open_ += _named_in(functions[name])
    return seen


def _operations(function):
    return {node.op for node in function.node_def}


def _named_in(function):
    """Yields the functions that a function's operations take as attributes: branches, bodies, calls."""
    for node in function.node_def:
        for value in node.attr.values():
            yield value.func.name
            yield from (each.name for each in value.list.func)
