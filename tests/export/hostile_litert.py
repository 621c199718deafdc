"""Crafted .tflite files that pass the verification of LiteRT, and some of which end the process that runs them."""

import functools
import itertools
from collections.abc import Callable

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

_CODES = {getattr(schema.BuiltinOperator, name): name for name in dir(schema.BuiltinOperator) if name.isupper()}


def crafted_litert(data: bytes) -> dict[str, Callable[[], bytes]]:
    """Returns {what is wrong: function that makes the file}, more than 60, for a good file of `export.litert`."""
    model = _load(data)
    kinds = sorted({_kind(model, operator) for operator in model.subgraphs[0].operators})
    crafted = {change.__name__[1:]: functools.partial(_changed, data, change, kinds[0]) for change in _OF_MODEL}
    for kind, change in itertools.product(kinds, _OF_OPERATOR):
        crafted[f"{kind}, {change.__name__[1:]}"] = functools.partial(_changed, data, change, kind)
    return crafted


def _load(data):
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    for graph in model.subgraphs:
        graph.outputs = np.array(graph.outputs)
        for operator in graph.operators:
            operator.inputs, operator.outputs = np.array(operator.inputs), np.array(operator.outputs)
    return model


def _kind(model, operator):
    code = model.operatorCodes[operator.opcodeIndex]
    return _CODES[max(code.builtinCode, code.deprecatedBuiltinCode)]


def _changed(data, change, kind):
    model = _load(data)
    graph = model.subgraphs[0]
    change(model, graph, next(each for each in graph.operators if _kind(model, each) == kind))
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _no_first_input(model, graph, operator):
    operator.inputs[0] = -1  # which means that it is optional


def _inputs_out_of_range(model, graph, operator):
    operator.inputs[:] = 1_000_000


def _its_own_input(model, graph, operator):
    operator.inputs[0] = operator.outputs[0]


def _other_operator(model, graph, operator):
    operator.opcodeIndex = 999


def _reversed_inputs(model, graph, operator):
    operator.inputs = operator.inputs[::-1].copy()


def _no_operators(model, graph, operator):
    graph.operators = []


def _no_tensors(model, graph, operator):
    graph.tensors = []


def _no_buffers(model, graph, operator):
    model.buffers = []


def _no_graphs(model, graph, operator):
    model.subgraphs = []


def _signature_of_no_graph(model, graph, operator):
    model.signatureDefs[0].subgraphIndex = 99


def _no_outputs(model, graph, operator):
    graph.outputs[:] = -1


def _constants(model, graph, operator):
    for buffer in model.buffers:
        if buffer.data is not None and len(buffer.data):
            buffer.data = np.full(len(buffer.data), 0x7F, np.uint8)


_OF_OPERATOR = (_no_first_input, _inputs_out_of_range, _its_own_input, _other_operator, _reversed_inputs)
_OF_MODEL = (_no_operators, _no_tensors, _no_buffers, _no_graphs, _signature_of_no_graph, _no_outputs, _constants)
