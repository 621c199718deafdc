"""Rejection of untrusted SavedModels that do more than compute: use of files, network or Python, or excessive sizes.

Users open `.keras` files freely, because Keras promises not to run code from them. So the graph inside is checked
before it is loaded.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from bert_tf.export.hub.allowed_operations import COMPUTES, LOADS
from bert_tf.export.hub.file_reads import reads_of_other_files, source_of
from bert_tf.export.hub.graph_bounds import Functions, functions_of, named_in, out_of_proportion, reachable
from bert_tf.utils.tensorflow_internals import is_operation

# Children of an object that TensorFlow runs when it loads or frees the object.
_RUN_AT_LOAD = ("_create_resource", "_initialize", "_destroy_resource")


def check_saved_model(folder: str):
    """Raises ValueError if the SavedModel in `folder` can do more than compute, or refers to files outside it.

    Functions that save and restore variables are not checked, because loading does not use them.
    """
    graph = read_graph(folder)
    wrong = [*faults(graph), *(f"the asset {name}" for name in assets_outside(graph, folder))]
    if wrong:
        raise ValueError(
            "The SavedModel in this saved layer was rejected because it does more than compute: "
            f"{printable('; '.join(wrong[:5]))}; if you trust it, create the layer from its directory, "
            "`HubLayer(path)`, build the model around it, and call `load_weights`."
        )


def read_graph(folder: str) -> meta_graph_pb2.MetaGraphDef:
    """Returns the MetaGraphDef of the SavedModel in a folder.

    Raises:
        ValueError: there is none, or it is not from TensorFlow 2.
    """
    graphs = read_graphs(folder)
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        raise ValueError(
            f"{os.path.join(folder, 'saved_model.pb')} must be a SavedModel of TensorFlow 2, with objects; it is "
            "one of TensorFlow 1, perhaps a hub.Module. Use the model's newer version."
        )
    return graphs[0]


def read_graphs(folder: str) -> Sequence[meta_graph_pb2.MetaGraphDef]:
    """Returns the graphs of the SavedModel in a folder, one for each set of tags.

    Raises:
        ValueError: there is no SavedModel.
    """
    path = os.path.join(folder, "saved_model.pb")
    if not os.path.isfile(path):
        raise ValueError(
            f"SavedModel not found: {folder} has no saved_model.pb. Pass the directory that contains it; "
            "`bert_tf.export.hub.export.export_hub` writes one from a checkpoint."
        )
    saved = saved_model_pb2.SavedModel()
    try:
        with open(path, "rb") as file:
            saved.ParseFromString(file.read())
    except DecodeError as error:
        raise ValueError(f"{path} is not the graph of a SavedModel: {error}. The file may be incomplete.") from error
    if not saved.meta_graphs:
        raise ValueError(f"{path} is not the graph of a SavedModel: it has no graph. The file may be incomplete.")
    return saved.meta_graphs


def faults(graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """Yields what the functions of a SavedModel do besides computing, each with the function that contains it.

    An operation is rejected unless it is known to only compute; a table may be read only from the model's own assets;
    loading the model may only create tables and variables, with memory and time in proportion to the file size.
    """
    functions = functions_of(graph)
    if len(functions) < len(graph.graph_def.library.function):
        yield "functions of the same name"
    at_load = reachable(functions, _run_at_load(graph))
    savers = savers_of(graph, functions)
    # Functions without visible callers are checked too, because an attribute may make TensorFlow swap functions.
    functions = {name: function for name, function in functions.items() if name not in savers}
    for name in sorted(functions):
        yield from faults_of_nodes(functions, functions[name].node_def, name, name in at_load)
    yield from out_of_proportion(graph)
    starts = [(functions[name], _given_files(graph, functions[name], concrete.bound_inputs))
              for name, concrete in graph.object_graph_def.concrete_functions.items() if name in functions]  # fmt: skip
    yield from reads_of_other_files(functions, starts)


def faults_of_nodes(
    functions: Functions, nodes: Iterable, where: str, at_load: bool = False, besides: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yields what operations do besides computing.

    Args:
        functions: of the graph.
        nodes: the operations.
        where: what contains them.
        at_load: whether they run when the model is loaded.
        besides: names of more operations that are permitted.
    """
    when = ", which runs when the model is loaded" if at_load else ""
    wrong = set()
    for node in nodes:
        # If a function has the name of a TensorFlow operation, the operation may be meant.
        is_call = node.op in functions and not is_operation(node.op)
        if not is_call and node.op not in (LOADS if at_load else COMPUTES) and node.op not in besides:
            wrong.add(f"{node.op} in {where}{when}")
        if "container" in node.attr and node.attr["container"].s:
            wrong.add(f"{node.op} with a container, which other models share, in {where}{when}")
        if any(value.placeholder for value in node.attr.values()):
            wrong.add(f"{node.op} with an attribute set by its caller, in {where}{when}")
    yield from sorted(wrong)


def assets_outside(graph: meta_graph_pb2.MetaGraphDef, folder: str | None = None) -> list[str]:
    """Returns the names of assets that are outside the model's directory, or are not files.

    Args:
        graph: the graph that names them.
        folder: the model's directory, if its files exist.
    """
    wrong = []
    for asset in graph.asset_file_def:
        name = asset.filename
        leads_out = os.path.isabs(name) or ".." in name.replace("\\", "/").split("/")
        if not leads_out and folder is not None:
            path = os.path.join(folder, "assets", name)
            inside = os.path.join(os.path.realpath(folder), "assets", os.path.normpath(name))
            leads_out = not os.path.isfile(path) or os.path.realpath(path) != inside
        if leads_out:
            wrong.append(name)
    return wrong


def printable(text: str) -> str:
    """Escapes a text so that a terminal shows control characters instead of interpreting them."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _run_at_load(graph):
    """Yields the functions that TensorFlow runs when it loads or frees the model, and those that depend on them."""
    nodes = graph.object_graph_def.nodes
    seen, open_ = set(), []
    for node in nodes:
        is_resource = node.WhichOneof("kind") == "resource" or node.registered_name.startswith("tf.")
        open_ += [child.node_id for child in node.children if is_resource or child.local_name in _RUN_AT_LOAD]
    while open_:
        number = open_.pop()
        if number in seen or number >= len(nodes):
            continue
        seen.add(number)
        yield from nodes[number].function.concrete_functions
        yield nodes[number].bare_concrete_function.concrete_function_name
        open_ += [child.node_id for child in nodes[number].children]


def savers_of(graph: meta_graph_pb2.MetaGraphDef, functions: Functions) -> set[str]:
    """Returns the names of the functions that save or restore variables and that nothing else calls."""
    saver, library = graph.saver_def, graph.graph_def.library
    ends = {source_of(name) for name in (saver.save_tensor_name, saver.restore_op_name) if name}
    nodes = [node for node in graph.graph_def.node if node.name in ends]
    found = reachable(functions, (each for node in nodes for each in named_in(node)))
    others = set(functions) - found | set(graph.object_graph_def.concrete_functions)
    others |= {each.gradient_func for each in (*library.gradient, *library.registered_gradients)}
    # With this attribute, a graph optimizer may replace one function with another.
    others |= {name for name in found if "api_implements" in functions[name].attr}
    return found - reachable(functions, others)


def _given_files(graph, function, bound_inputs):
    """Returns the names of a function's arguments that are files of the model; captures come last."""
    nodes, arguments = graph.object_graph_def.nodes, function.signature.input_arg
    captured = arguments[len(arguments) - len(bound_inputs) :] if len(bound_inputs) <= len(arguments) else []
    is_file = [number < len(nodes) and nodes[number].WhichOneof("kind") == "asset" for number in bound_inputs]
    return {argument.name for argument, good in zip(captured, is_file, strict=False) if good}
