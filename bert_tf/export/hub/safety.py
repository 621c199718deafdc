"""What a SavedModel from somebody else's file must not do: read or write files, reach the network, run Python.

A `.keras` file is opened without a second thought, as Keras promises that it runs nobody's code; so this is looked at
before the graph inside is.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import op_def_registry  # raw_ops lacks some, DumpTensor for one

from bert_tf.export.hub.bounds import Functions, functions_of, named_in, out_of_proportion, reachable
from bert_tf.export.hub.operations import COMPUTES, LOADS
from bert_tf.export.hub.reads import reads_of_other_files, source_of

# Children of an object that TensorFlow runs when it loads or frees it.
_RUN_AT_LOAD = ("_create_resource", "_initialize", "_destroy_resource")


def check(folder: str):
    """Raises ValueError where the SavedModel in `folder` can do more than compute, or leads out of it.

    What saves and restores variables is not looked at: loading does it without those functions.
    """
    graph = read_graph(folder)
    wrong = [*faults(graph), *(f"the asset {name}" for name in assets_outside(graph, folder))]
    if wrong:
        raise ValueError(
            "A saved layer must hold a SavedModel that only computes. Received one with "
            f"{printable('; '.join(wrong[:5]))}; if you trust it, make the layer from its folder, "
            "`HubLayer(path)`, build the model around it, and call `load_weights`."
        )


def read_graph(folder: str) -> meta_graph_pb2.MetaGraphDef:
    """Returns the MetaGraphDef of the SavedModel in a folder.

    Raises:
        ValueError: there is none, or it is not TensorFlow 2's.
    """
    graphs = read_graphs(folder)
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        raise ValueError(
            f"{os.path.join(folder, 'saved_model.pb')} must be a SavedModel of TensorFlow 2, with objects. Received "
            "one of TensorFlow 1, a hub.Module perhaps; take the model's newer version."
        )
    return graphs[0]


def read_graphs(folder: str) -> Sequence[meta_graph_pb2.MetaGraphDef]:
    """Returns the graphs of the SavedModel in a folder, for each set of tags one.

    Raises:
        ValueError: there is none.
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
    if not saved.meta_graphs:
        raise ValueError(f"{path} must be a SavedModel's graph. Received one without any; is the file whole?")
    return saved.meta_graphs


def faults(graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """Yields what the functions of a SavedModel do besides computing, each with the function that it stands in.

    An operation is refused unless it is known to compute only; a table may be read from the model's own assets alone;
    what runs when the model is loaded makes tables and variables, and takes memory and time as the file has bytes.
    """
    functions = functions_of(graph)
    if len(functions) < len(graph.graph_def.library.function):
        yield "functions of the same name"
    at_load = reachable(functions, _run_at_load(graph))
    savers = savers_of(graph, functions)
    # Those that nothing is seen to call are looked at, too: an attribute may have TensorFlow exchange functions.
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
        where: what they stand in.
        at_load: whether they run when the model is loaded.
        besides: names of more operations that are permitted.
    """
    when = ", which runs when the model is loaded" if at_load else ""
    wrong = set()
    for node in nodes:
        # TensorFlow's own operation may be meant where a function has its name.
        is_call = node.op in functions and op_def_registry.get(node.op) is None
        if not is_call and node.op not in (LOADS if at_load else COMPUTES) and node.op not in besides:
            wrong.add(f"{node.op} in {where}{when}")
        if "container" in node.attr and node.attr["container"].s:
            wrong.add(f"{node.op} with a container, which other models share, in {where}{when}")
        if any(value.placeholder for value in node.attr.values()):
            wrong.add(f"{node.op} with an attribute that its caller decides, in {where}{when}")
    yield from sorted(wrong)


def assets_outside(graph: meta_graph_pb2.MetaGraphDef, folder: str | None = None) -> list[str]:
    """Returns the names of assets that lead out of the model's folder, or are no files.

    Args:
        graph: what names them.
        folder: the model's, where its files are there to look at.
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
    """Returns a text whose characters a terminal shows, and does not obey."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _run_at_load(graph):
    """Yields the functions that TensorFlow runs when it loads or frees the model, and those that hang on them."""
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
    # An optimizer of graphs may put one function in the place of another with this attribute.
    others |= {name for name in found if "api_implements" in functions[name].attr}
    return found - reachable(functions, others)


def _given_files(graph, function, bound_inputs):
    """Returns the names of a function's arguments that are files of the model: what it captures comes last."""
    nodes, arguments = graph.object_graph_def.nodes, function.signature.input_arg
    captured = arguments[len(arguments) - len(bound_inputs) :] if len(bound_inputs) <= len(arguments) else []
    is_file = [number < len(nodes) and nodes[number].WhichOneof("kind") == "asset" for number in bound_inputs]
    return {argument.name for argument, good in zip(captured, is_file, strict=False) if good}
