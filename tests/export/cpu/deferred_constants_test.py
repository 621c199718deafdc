"""Constants that a graph has no values of until its file is complete."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.export.cpu.model import with_constants

SHAPE = [200, 300]


@pytest.fixture
def traced():
    """Returns two variables, the function that multiplies with them as constants, and the constants."""
    dtypes = "float32", "bfloat16", "int8"
    variables = [keras.Variable(np.arange(60_000).reshape(SHAPE) % 100 + n, dtype=dtype)
                 for n, dtype in enumerate(dtypes)]  # fmt: skip
    unused = keras.Variable(np.ones(SHAPE, np.float32))

    def forward(features):
        kernels = [tf.cast(tf.convert_to_tensor(each), tf.float32) for each in variables]
        return [features["x"] @ each for each in (*kernels, tf.convert_to_tensor(unused))]

    inputs = [tf.TensorSpec([None, SHAPE[0]], name="x")]
    call, constants = with_constants(forward, inputs, variables)
    function = tf.function(lambda x: call({"x": x}), inputs, autograph=False).get_concrete_function()
    return variables, function, constants


def test_a_graph_in_memory_has_zeros_in_a_few_bytes(traced):
    variables, function, _ = traced
    assert function.graph.as_graph_def().ByteSize() < 10_000 < variables[2].numpy().nbytes
    outputs = function(tf.ones([1, SHAPE[0]]))
    assert not any(np.any(each) for each in outputs[:3])
    np.testing.assert_array_equal(outputs[3][0], np.full(SHAPE[1], SHAPE[0]))  # a variable that is not among them


def test_they_are_filled_in_once_for_all_functions(traced):
    variables, function, constants = traced
    graph = meta_graph_pb2.MetaGraphDef(graph_def=function.graph.as_graph_def())
    constants.fill(graph)
    nodes = [node for each in graph.graph_def.library.function for node in each.node_def if node.op == "Const"]
    values = [tf.make_ndarray(node.attr["value"].tensor) for node in nodes if "weight" in node.name]
    assert len(values) == len(variables)
    for value, variable in zip(values, variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
        assert value.dtype == variable.numpy().dtype


def test_a_graph_of_another_model_is_noticed(traced):
    with pytest.raises(AssertionError, match="lacks"):
        traced[2].fill(meta_graph_pb2.MetaGraphDef())
