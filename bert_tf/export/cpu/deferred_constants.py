"""Weights that are constants of an exported graph, but not of a graph in memory."""

import contextlib
from collections.abc import Sequence

import keras
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

_NAME = "deferred_weight_"  # of an operation, followed by a number


class DeferredConstants:
    """Constants whose values are written into the file of a SavedModel, when it is complete otherwise.

    TensorFlow copies a constant's value with each function that has it, with each graph that is made of a function, and
    into each message on the way to the file: together, more than ten times. A constant of zeros is a few bytes.

    Args:
        variables: hold the values.
    """

    def __init__(self, variables: Sequence[keras.Variable]):
        self._variables = {f"{_NAME}{number}": each for number, each in enumerate(variables)}

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns a context in which Keras reads zeros for the variables: constants of the graph being traced."""
        zeros = [
            (variable, tf.constant(0, variable.dtype, variable.shape, name=name))
            for name, variable in self._variables.items()
        ]
        return keras.StatelessScope(zeros, initialize_variables=False)

    def fill(self, graph: meta_graph_pb2.MetaGraphDef):
        """Gives the constants of a SavedModel's graph their values.

        Args:
            graph: with one function that was traced in the scope; changed in place.
        """
        left = dict(self._variables)
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "Const" and node.name.startswith(_NAME):
                    tensor = node.attr["value"].tensor
                    dtype, shape = tensor.dtype, tensor.tensor_shape.SerializeToString()
                    tensor.Clear()
                    tensor.dtype = dtype
                    tensor.tensor_shape.ParseFromString(shape)
                    tensor.tensor_content = left.pop(node.name).numpy().tobytes()
        assert not left, f"the graph lacks {sorted(left)}"
