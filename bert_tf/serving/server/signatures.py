"""What a SignatureDef says, read once: reading protocol buffers at each request would be half of a request's cost."""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving.errors import invalid

# TensorFlow copies an array of strings with an iterator of NumPy's that has 32 axes, and ends the process beyond them.
MAX_AXES = 32
_SHOWN_AXES = 8

PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An input or output.

    Attributes:
        tensor: its name in the graph.
        dtype: its type.
        shape: its sizes, None where a request decides; None: not even their number is known.
    """

    tensor: str
    dtype: tf.DType
    shape: tuple[int | None, ...] | None = None

    def check_shape(self, alias: str, sizes: Sequence[int]):
        """Raises ServingError where a tensor has more axes than this input, or another size on an axis of known size.

        Fewer axes are left to the graph, as TensorFlow Serving leaves them: its half_plus_two takes [n] for [n, 1].

        Args:
            alias: of the input, for the message.
            sizes: of the tensor's axes.
        """
        if self.shape is None:
            if len(sizes) > MAX_AXES:
                raise invalid(f"The input {alias} may have {MAX_AXES} axes and has {len(sizes)}")
        elif len(sizes) >= len(self.shape):
            known = [size if wanted is None else wanted for wanted, size in zip(self.shape, sizes, strict=False)]
            if known != list(sizes):
                raise invalid(f"The input {alias} must have the shape {_listed(self.shape)} and has {_listed(sizes)}")

    @property
    def has_rows(self) -> bool:
        """Whether its first axis is that of the texts or examples of a request."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def has_fixed_rows(self) -> bool:
        """Whether a row of it has the same shape in every request."""
        return self.has_rows and None not in self.shape[1:]


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature, its inputs and outputs in alphabetical order.

    Attributes:
        inputs: {alias: endpoint}.
        outputs: {alias: endpoint}.
        defaults: {input alias: TensorProto} for inputs that a request may leave out.
        definition: the SignatureDef itself.
        checks_method: whether it can only be asked for by the method whose name it bears.
        explains: whether it explains an answer, which costs many times what the answer does.
    """

    inputs: dict[str, Endpoint]
    outputs: dict[str, Endpoint]
    defaults: dict[str, tensor_pb2.TensorProto]
    definition: meta_graph_pb2.SignatureDef
    checks_method: bool = False
    explains: bool = False

    def has_method(self, *names: str) -> bool:
        """Whether one of these methods, such as `PREDICT`, may ask for it."""
        return not self.checks_method or self.definition.method_name in names

    @functools.cached_property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is fed and what is fetched: names of tensors, each once, in one order whatever a request asks for.

        All outputs are fetched, since TensorFlow would prepare the graph anew, for seconds, for each choice of them.
        """
        feeds, fetches = ({e.tensor for e in side.values()} for side in (self.inputs, self.outputs))
        return tuple(sorted(feeds)), tuple(sorted(fetches))


def read_signature(
    definition: meta_graph_pb2.SignatureDef, checks_method: bool = False, explains: bool = False
) -> Signature:
    """Returns the Signature of a SignatureDef."""
    inputs, outputs = (_endpoints(side) for side in (definition.inputs, definition.outputs))
    return Signature(inputs, outputs, dict(definition.defaults), definition, checks_method, explains)


def _endpoints(infos):
    # The signature that TensorFlow adds for initialization has an operation for an output: no tensor, so no type.
    aliases = [alias for alias in sorted(infos) if infos[alias].dtype]
    return {alias: _endpoint(infos[alias]) for alias in aliases}


def _endpoint(info):
    known = not info.tensor_shape.unknown_rank
    shape = tuple(dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim) if known else None
    return Endpoint(info.name, tf.as_dtype(info.dtype), shape)


def _listed(sizes):
    shown = ["?" if size is None else str(size) for size in sizes[:_SHOWN_AXES]]
    return f"[{', '.join(shown)}{', ...' if len(sizes) > _SHOWN_AXES else ''}]"
