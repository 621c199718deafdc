"""Graphs that take much more than their file has bytes: refused by their form."""

import math

import pytest
from tensorflow.core.framework import tensor_pb2, types_pb2

from bert_tf.export.hub import graph_check
from bert_tf.export.hub.graph_check import bytes_of
from tests.export.hub import hostile
from tests.export.hub.hostile import Table


def _stretch(graph):
    for tensor in hostile.constants(graph):
        tensor.ClearField("tensor_content")
        tensor.int64_val[:] = [0]
        tensor.tensor_shape.dim[0].size = 2**31


def _double(graph, levels=40, last=None):
    """Has each of some functions call the one before it twice, and what runs at loading call the last of them."""
    name = last
    for level in range(levels):
        function = graph.graph_def.library.function.add()
        function.signature.name = f"__inference_level_{level}"
        for _ in range(2):
            if name:
                hostile.add_call(function, name)
        name = function.signature.name
    hostile.add_call(hostile.initializer(graph), name)


def _double_constants(graph):
    """Has a constant of 64 MB, which is permitted, be made 1,024 times."""
    function = graph.graph_def.library.function.add()
    function.signature.name = "__inference_constant"
    tensor = function.node_def.add(name="constant", op="Const").attr["value"].tensor
    tensor.dtype, tensor.int64_val[:] = types_pb2.DT_INT64, [0]
    tensor.tensor_shape.dim.add(size=2**23)
    _double(graph, 10, function.signature.name)


def _calls_itself(graph):
    hostile.add_call(hostile.initializer(graph), hostile.initializer(graph).signature.name)


def _handle(graph):
    hostile.constants(graph)[0].dtype = types_pb2.DT_RESOURCE


def _stretches_a_bound(graph):
    """A value in the description of an argument, of which TensorFlow makes an array."""
    concrete = next(iter(graph.object_graph_def.concrete_functions.values()))
    value = concrete.canonicalized_input_signature.tuple_value.values.add()
    tensor = value.bounded_tensor_spec_value.minimum
    tensor.dtype, tensor.float_val[:] = types_pb2.DT_FLOAT, [0.0]
    tensor.tensor_shape.dim.add(size=2**40)


ATTACKS = {
    "16 GB in 9 bytes": (_stretch, "constants that take far more memory than their file"),
    "2^40 calls": (_double, r"calls within calls, of more than 1048576 operations, __inference_level_\d+"),
    "64 GB by calls": (_double_constants, "calls within calls, whose constants take far more memory than their file"),
    "a circle": (_calls_itself, "a function that calls itself, __inference"),
    "a handle": (_handle, "a handle as a constant, "),
    "4 TB in a signature": (_stretches_a_bound, "constants that take far more .*, a signature the most"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_graphs_out_of_proportion_are_refused(attack, tmp_path):
    change, words = ATTACKS[attack]
    folder = hostile.save(Table(), tmp_path / "hub")
    graph_check.check_saved_model(str(folder))
    hostile.edit(folder, change)
    with pytest.raises(ValueError, match=rf"Received one with .*{words}"):
        graph_check.check_saved_model(str(folder))


def test_bytes_in_memory():
    def tensor(dtype, *dims):
        made = tensor_pb2.TensorProto(dtype=dtype)
        for size in dims:
            made.tensor_shape.dim.add(size=size)
        return made

    assert bytes_of(tensor(types_pb2.DT_FLOAT)) == 4 and bytes_of(tensor(types_pb2.DT_INT64, 3, 5)) == 120
    assert bytes_of(tensor(types_pb2.DT_STRING, 2)) == 48 and bytes_of(tensor(types_pb2.DT_HALF, 0, 2**40)) == 0
    assert bytes_of(tensor(12345, 2)) == 32
    assert bytes_of(tensor(types_pb2.DT_FLOAT, -1)) == bytes_of(tensor(types_pb2.DT_FLOAT, *[1] * 255)) == math.inf
