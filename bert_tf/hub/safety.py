"""What a SavedModel from somebody else's file must not do: read or write files, reach the network, run Python.

A `.keras` file is opened without a second thought, as Keras promises that it runs nobody's code; so this is looked at
before the graph inside is.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from bert_tf.hub.operations import COMPUTES, LOADS

Functions = Mapping[str, function_pb2.FunctionDef]

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
_FILE_TABLES = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
# Children of an object that TensorFlow runs when it loads or frees it.
_RUN_AT_LOAD = ("_create_resource", "_initialize", "_destroy_resource")


def check(folder: str):
    """Raises ValueError where the SavedModel in `folder` can do more than compute, or leads out of it.

    What saves and restores variables is not looked at: loading does it without those functions.
    """
    graph = read_graph(folder)
    wrong = list(faults(graph)) + [f"the asset {name}" for name in assets_outside(graph)]
    if wrong:
        raise ValueError(
            "A saved layer must hold a SavedModel that only computes. Received one with "
            f"{'; '.join(wrong[:5])}; if you trust it, make the layer from its folder, "
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


def faults(graph: meta_graph_pb2.MetaGraphDef, with_loops: bool = True) -> Iterator[str]:
    """Yields what the functions of a SavedModel do besides computing, each with the function that it stands in.

    An operation is refused unless it is known to compute only; a table may be read from the model's own assets alone; a
    loop, where `with_loops` says so, must count up to a number; what runs when the model is loaded must make nothing
    large.
    """
    functions = functions_of(graph)
    at_load = reachable(functions, _run_at_load(graph))
    for name in sorted(reachable(functions, _roots(graph))):
        yield from faults_of_nodes(functions, functions[name].node_def, name, name in at_load)
    if with_loops:
        yield from open_loops(functions, reachable(functions, _roots(graph)))
    starts = [(functions[name], _given_files(graph, functions[name], concrete.bound_inputs))
              for name, concrete in graph.object_graph_def.concrete_functions.items() if name in functions]  # fmt: skip
    yield from tables_of_other_files(functions, starts)


def functions_of(graph: meta_graph_pb2.MetaGraphDef) -> dict[str, function_pb2.FunctionDef]:
    """Returns the functions of a graph by name."""
    return {function.signature.name: function for function in graph.graph_def.library.function}


def faults_of_nodes(functions: Functions, nodes: Iterable, where: str, at_load: bool = False) -> Iterator[str]:
    """Yields what operations do besides computing.

    Args:
        functions: of the graph.
        nodes: the operations.
        where: what they stand in.
        at_load: whether they run when the model is loaded.
    """
    when = ", which runs when the model is loaded" if at_load else ""
    allowed = (LOADS if at_load else COMPUTES) | set(functions)
    for operation in sorted({node.op for node in nodes} - allowed):
        yield f"{operation} in {where}{when}"


def open_loops(functions: Functions, names: Iterable[str]) -> Iterator[str]:
    """Yields the loops in some functions that do not just count up to a number."""
    for name in sorted(names):
        for node in functions[name].node_def:
            if node.op in _LOOPS and not _is_counted(functions, node):
                yield f"a loop without a bound, {node.name} in {name}"


def assets_outside(graph: meta_graph_pb2.MetaGraphDef) -> list[str]:
    """Returns the names of assets that lead out of the model's folder."""
    names = [asset.filename for asset in graph.asset_file_def]
    return [name for name in names if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/")]


def _roots(graph):
    """Returns the functions that an object can run, and those of gradients."""
    library = graph.graph_def.library
    yield from graph.object_graph_def.concrete_functions
    yield from (gradient.gradient_func for gradient in library.gradient)
    yield from (gradient.gradient_func for gradient in library.registered_gradients)


def _run_at_load(graph):
    nodes = graph.object_graph_def.nodes
    for node in nodes:
        for child in node.children:
            if child.local_name in _RUN_AT_LOAD and child.node_id < len(nodes):
                yield from nodes[child.node_id].function.concrete_functions


def reachable(functions: Functions, roots: Iterable[str]) -> set[str]:
    """Returns the names of the functions that some of them call, and of these."""
    seen, open_ = set(), list(roots)
    while open_:
        name = open_.pop()
        if name in functions and name not in seen:
            seen.add(name)
            open_ += [each for node in functions[name].node_def for each in named_in(node)]
    return seen


def named_in(node) -> Iterator[str]:
    """Yields the functions that an operation calls: its own name may be one's; attributes are branches and bodies."""
    yield node.op
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (each.name for each in value.list.func)


def _given_files(graph, function, bound_inputs):
    """Returns the names of a function's arguments that are files of the model: what it captures comes last."""
    nodes, arguments = graph.object_graph_def.nodes, function.signature.input_arg
    first = len(arguments) - len(bound_inputs)
    is_file = [number < len(nodes) and nodes[number].WhichOneof("kind") == "asset" for number in bound_inputs]
    return {arguments[first + n].name for n, good in enumerate(is_file) if good}


def tables_of_other_files(
    functions: Functions, starts: Iterable[tuple[function_pb2.FunctionDef, set[str]]]
) -> list[str]:
    """Returns a sentence for each table whose file is not one of the model's.

    Args:
        functions: of the graph.
        starts: (function, which of its tensors are names of the model's files) of all that may be called.
    """
    found, seen = set(), set()
    open_ = [(function, frozenset(files)) for function, files in starts]
    while open_:
        function, files = open_.pop()
        name = function.signature.name
        if (name, files) in seen:
            continue
        seen.add((name, files))
        files = _passed_on(function, files)
        for node in function.node_def:
            sources = [_source(each) for each in node.input]
            if node.op in _FILE_TABLES and not files.issuperset(sources[1:2] or [None]):
                found.add(f"a table of a file that is no asset of the model, {node.name} in {name}")
            for called in (functions[each] for each in named_in(node) if each in functions):
                arguments = called.signature.input_arg
                pairs = zip(arguments, sources, strict=False) if node.op in _CALLS else ()  # to branches none is given
                open_.append((called, frozenset(argument.name for argument, each in pairs if each in files)))
    return sorted(found)


def _passed_on(function, files):
    """Returns names of tensors and of the operations that pass these on as they are."""
    names = set(files)
    passing = [node for node in function.node_def if node.op == "Identity" and node.input]
    while more := {node.name for node in passing if node.name not in names and _source(node.input[0]) in names}:
        names |= more
    return names


def _is_counted(functions, loop):
    """Whether a loop goes on only while a number that each turn adds one to is below one that no turn changes."""
    condition, body = (functions.get(loop.attr[part].func.name) for part in ("cond", "body"))
    if condition is None or body is None or len(body.signature.output_arg) != len(body.signature.input_arg):
        return False
    places = {argument.name: n for n, argument in enumerate(condition.signature.input_arg)}
    inside = [argument.name for argument in body.signature.input_arg]
    results = [_origin(body, body.ret[argument.name]) for argument in body.signature.output_arg]
    if len(places) != len(inside):
        return False
    constants = {node.name for node in condition.node_def if node.op == "Const"}
    for counter, bound in _must_be_less(condition):
        if counter not in places or bound not in constants and bound not in places:
            continue
        stays = bound in constants or results[places[bound]] == inside[places[bound]]
        if stays and _adds_one(body, results[places[counter]], inside[places[counter]]):
            return True
    return False


def _must_be_less(condition):
    """Yields (a, b), names of arguments, of comparisons a < b without all of which a condition is false."""
    nodes = {node.name: node for node in condition.node_def}
    open_ = [_origin(condition, each) for each in condition.ret.values()]
    while open_:
        node = nodes.get(open_.pop())
        if node is not None and node.op == "LogicalAnd":
            open_ += [_origin(condition, each) for each in node.input[:2]]
        elif node is not None and node.op == "Less":
            yield tuple(_origin(condition, each) for each in node.input[:2])


def _adds_one(body, name, argument):
    nodes = {node.name: node for node in body.node_def}
    node = nodes.get(name)
    if node is None or node.op not in ("Add", "AddV2") or len(node.input) < 2:
        return False
    first, second = (_origin(body, each) for each in node.input[:2])
    one = nodes.get(second)
    if first != argument or one is None or one.op != "Const":
        return False
    value = one.attr["value"].tensor
    return list(value.int_val) == [1] or list(value.int64_val) == [1]


def _origin(function, tensor):
    """Returns the argument or operation from which a tensor comes, behind those that pass it on as it is."""
    nodes = {node.name: node for node in function.node_def}
    name, seen = _source(tensor), set()
    while name in nodes and nodes[name].op == "Identity" and name not in seen:
        seen.add(name)
        name = _source(nodes[name].input[0])
    return name


def _source(tensor):
    """Returns the argument or operation in "name:output:0"."""
    return tensor.partition(":")[0]
