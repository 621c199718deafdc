"""What a SignatureDef says, read once: reading protocol buffers at each request would be half of a request's cost."""

import dataclasses

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An input or output.

    Attributes:
        tensor: its name in the graph.
        dtype: its type.
    """

    tensor: str
    dtype: tf.DType


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature, its inputs and outputs in alphabetical order.

    Attributes:
        inputs: {alias: endpoint}.
        outputs: {alias: endpoint}.
        defaults: {input alias: TensorProto} for inputs that a request may leave out.
        definition: the SignatureDef itself.
    """

    inputs: dict[str, Endpoint]
    outputs: dict[str, Endpoint]
    defaults: dict[str, tensor_pb2.TensorProto]
    definition: meta_graph_pb2.SignatureDef


def read_signature(definition: meta_graph_pb2.SignatureDef) -> Signature:
    """Returns the Signature of a SignatureDef."""
    inputs, outputs = (_endpoints(side) for side in (definition.inputs, definition.outputs))
    return Signature(inputs, outputs, dict(definition.defaults), definition)


def _endpoints(infos):
    # The signature that TensorFlow adds for initialization has an operation for an output: no tensor, so no type.
    aliases = [alias for alias in sorted(infos) if infos[alias].dtype]
    return {alias: Endpoint(infos[alias].name, tf.as_dtype(infos[alias].dtype)) for alias in aliases}
