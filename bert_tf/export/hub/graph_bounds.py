"""Memory and time that a graph takes before it computes: constants and nested calls.

A file of a few bytes can repeat one number 2^40 times, or have forty functions that each call the one
before it twice. TensorFlow expands such constants and inlines such calls when it loads a model.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.framework import function_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

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
