"""Rejects untrusted SavedModels that do more than compute: use of files, network or Python, or excessive sizes.

Users open `.keras` files freely, because Keras promises not to run code from them. So the graph inside is checked
before it is loaded.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError, Message
from tensorflow.core.framework import function_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from bert_tf.export.hub.allowed_operations import COMPUTES, LOADS
from bert_tf.utils.tensorflow_internals import is_operation

# === Bounds ===
# Memory and time that a graph takes before it computes: constants and nested calls.
#
# A file of a few bytes can repeat one number 2^40 times, or have forty functions that each call the one
# before it twice. TensorFlow expands such constants and inlines such calls when it loads a model.


Functions = Mapping[str, function_pb2.FunctionDef]

_MOST_RUNS = 2**20  # operations that one function runs, including those of the functions that it calls
_COPIES = 8  # of a file's constants that one function may expand to
_ROOM = 2**28  # bytes that constants may take in addition
_MOST_AXES = 254  # of a tensor in TensorFlow
_HANDLES = (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)
_STRING_BYTES = 24  # of an empty one
_LARGEST_TYPE = 16


def functions_of(graph: meta_graph_pb2.MetaGraphDef) -> dict[str, function_pb2.FunctionDef]:
    """Returns the functions of a graph by name."""
    return {function.signature.name: function for function in graph.graph_def.library.function}


def named_in(node) -> Iterator[str]:
    """Yields the functions that an operation calls: by its own name, or as branches and bodies in attributes."""
    yield node.op
    open_ = list(node.attr.values())
    while open_:
        value = open_.pop()
        for called in ([value.func] if value.HasField("func") else []) + list(value.list.func):
            yield called.name
            open_ += called.attr.values()  # functions may be arguments of functions


def reachable(functions: Functions, roots: Iterable[str]) -> set[str]:
    """Returns the names of some functions and of all functions that they call."""
    seen, open_ = set(), list(roots)
    while open_:
        name = open_.pop()
        if name in functions and name not in seen:
            seen.add(name)
            open_ += [each for node in functions[name].node_def for each in named_in(node)]
    return seen


def out_of_proportion(graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """Yields what makes a graph run or hold much more than its file size suggests: recursive functions, nested
    calls, compressed constants. Also yields constants that are handles of others' resources."""
    functions = functions_of(graph)
    called = {
        name: [each for node in function.node_def for each in named_in(node) if each in functions]
        for name, function in functions.items()
    }
    order, circular = _callees_first(called)
    yield from (f"a function that calls itself, {name}" for name in circular)
    outside = [*((node.name, tensor) for node in graph.graph_def.node for tensor in _tensors_in(node)),
               *(("a signature", tensor) for tensor in _tensors_below(graph.object_graph_def))]  # fmt: skip
    inside = {name: [(f"{node.name} in {name}", tensor) for node in function.node_def for tensor in _tensors_in(node)]
              for name, function in functions.items()}  # fmt: skip
    constants = [*outside, *(each for some in inside.values() for each in some)]
    yield from (f"a handle as a constant, {where}" for where, tensor in constants if tensor.dtype in _HANDLES)
    most_bytes = _COPIES * graph.ByteSize() + _ROOM
    sizes = {name: sum(bytes_of(tensor) for _, tensor in some) for name, some in inside.items()}
    if sum(sizes.values()) + sum(bytes_of(tensor) for _, tensor in outside) > most_bytes:
        where, _ = max(constants, key=lambda each: bytes_of(each[1]))
        yield f"constants that take far more memory than their file, {where} the most"
    runs = {name: len(function.node_def) for name, function in functions.items()}
    for name in _first_above(_MOST_RUNS, order, called, runs):
        yield f"nested calls with more than {_MOST_RUNS} operations, {name}"
    for name in _first_above(most_bytes, order, called, sizes):
        yield f"nested calls whose constants take far more memory than their file,  {name}"


def _callees_first(called):
    """Returns the functions, each after those that it calls, and the recursive functions."""
    order, circular, begun, open_ = {}, [], set(), sorted(called)
    while open_:
        name = open_[-1]
        missing = [] if name in order else [each for each in called[name] if each not in order]
        if missing and name not in begun:
            begun.add(name)
            open_ += missing
            continue
        if missing:
            circular.append(name)
        order[open_.pop()] = None
    return list(order), circular


def _first_above(most, order, called, sizes):
    """Yields the first function that is larger than `most`, including all that it calls."""
    totals = {}
    for name in order:
        totals[name] = sizes[name] + sum(totals.get(each, 0) for each in called[name])
        if totals[name] > most:
            yield name
            return


def bytes_of(tensor: tensor_pb2.TensorProto) -> float:
    """Returns the size of a constant in memory, in bytes; infinity if its shape is invalid."""
    shape = tensor.tensor_shape
    if shape.unknown_rank or len(shape.dim) > _MOST_AXES or any(dim.size < 0 for dim in shape.dim):
        return math.inf
    try:
        width = tf.as_dtype(tensor.dtype).size or _STRING_BYTES
    except TypeError:  # a number that is not a type
        width = _LARGEST_TYPE
    return math.prod(dim.size for dim in shape.dim) * width


def _tensors_in(node):
    for value in node.attr.values():
        if value.HasField("tensor"):
            yield value.tensor
        yield from value.list.tensor


def _tensors_below(message):
    """Yields the tensors in a message, at any depth."""
    open_: list[Message] = [message]
    while open_:
        message = open_.pop()
        if isinstance(message, tensor_pb2.TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            values = [value] if isinstance(value, Message) else value  # as protobuf 5 and 6 both have it
            if field.message_type.GetOptions().map_entry:
                values = [each for each in value.values() if isinstance(each, Message)]
            open_ += values


# === Reads ===
# Files that a graph reads: names are traced from the model's assets to the operations that open them.


_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# The operations that read files, and which of their inputs is the file name.
_NAMES_A_FILE = {"InitializeTableFromTextFile": 1, "InitializeTableFromTextFileV2": 1, "RestoreV2": 0}


def reads_of_other_files(
    functions: Functions, starts: Iterable[tuple[function_pb2.FunctionDef, set[str]]]
) -> list[str]:
    """Returns a description of each operation that may read a file outside the model.

    A name must come from an asset unchanged, through functions that are called by name. The time is proportional to the
    graph's size, whatever the calls.

    Args:
        functions: of the graph.
        starts: (function, its tensors that are names of the model's files) of all entry points.
    """
    given = {function.signature.name: files for function, files in starts}
    bodies = dict(functions) | {function.signature.name: function for function, _ in starts}
    passed, reads, spoiled, called = defaultdict(list), [], set(), set()
    for name, function in bodies.items():
        origins = _origins(function)
        known = {argument.name for argument in function.signature.input_arg} | given.get(name, set())
        for node in function.node_def:
            names = (origins.get(source, source) for source in map(source_of, node.input))
            sources = [(name, each) if each in known else None for each in names]
            if node.op in _NAMES_A_FILE:
                number = _NAMES_A_FILE[node.op]
                reads.append((f"{node.op} of a file that is not an asset of the model, {node.name} in {name}",
                              sources[number] if number < len(sources) else None))  # fmt: skip
            for other in (each for each in named_in(node) if each in functions):
                arguments = functions[other].signature.input_arg
                called.add(other)
                if node.op not in _CALLS or node.attr["f"].func.name != other or len(arguments) > len(sources):
                    spoiled.add(other)  # branches and loop bodies do not receive file names
                    continue
                for source, argument in zip(sources, arguments, strict=False):
                    passed[source].append((other, argument.name))
    bad = _never_files(bodies, given, called, spoiled) | {None}
    open_ = list(bad)
    while open_:
        more = [each for each in passed.pop(open_.pop(), ()) if each not in bad]
        bad.update(more)
        open_ += more
    return sorted({sentence for sentence, source in reads if source in bad})


def source_of(tensor: str) -> str:
    """Returns the argument or operation in "name:output:0"."""
    return tensor.partition(":")[0]


def _never_files(
    bodies: Functions, given: Mapping[str, set[str]], called: set[str], spoiled: set[str]
) -> set[tuple[str, str] | None]:
    """Returns (function, argument) of those that an outside or unknown caller may set to any text."""
    return {
        (name, argument.name)
        for name, function in bodies.items()
        if name in given or name in spoiled or name not in called
        for argument in function.signature.input_arg
        if name in spoiled or argument.name not in given.get(name, set())
    }


def _origins(function):
    """Returns operation -> the argument or operation whose result it passes on unchanged."""
    nodes = (node for node in function.node_def if node.op == "Identity" and node.input)
    passing = {node.name: source_of(node.input[0]) for node in nodes}
    origins = {}
    for name in passing:
        way = []
        while name in passing and name not in origins:
            way.append(name)
            origins[name] = name  # remains in a cycle
            name = passing[name]
        origins.update(dict.fromkeys(way, origins.get(name, name)))
    return origins


# === Safety ===


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
