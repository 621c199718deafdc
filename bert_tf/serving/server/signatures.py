"""Signatures of a SavedModel.

SignatureDefs are read once: parsing protocol buffers for each request would be half of its cost.
"""

import dataclasses
import functools
from collections.abc import Sequence

from bert_tf.serving.server.dtypes import DType, as_dtype
from bert_tf.serving.server.tensorflow_messages import meta_graph_pb2, tensor_pb2

# TensorFlow copies string arrays with a NumPy iterator of 32 axes, and crashes the process beyond them.
MAX_AXES = 32
_SHOWN_AXES = 8

PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An input or output of a signature.

    Attributes:
        tensor: its name in the graph.
        dtype: its type.
        shape: its sizes, None for variable ones; if None, not even their number is known.
    """

    tensor: str
    dtype: DType
    shape: tuple[int | None, ...] | None = None

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether a tensor of these sizes has the axes of this endpoint, and its size on fixed ones."""
        if self.shape is None:
            return True
        return len(sizes) == len(self.shape) and all(
            wanted in (None, size) for wanted, size in zip(self.shape, sizes, strict=True)
        )

    def describe_misfit(self, alias: str, sizes: Sequence[int]) -> str:
        """Returns the message that a tensor of these sizes does not fit the input `alias`."""
        return f"The input {alias} must have the shape {_listed(self.shape)} and has {_listed(sizes)}"

    @property
    def has_rows(self) -> bool:
        """Whether its first axis is the batch axis."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def has_fixed_rows(self) -> bool:
        """Whether its rows have the same shape in every request."""
        return self.has_rows and None not in self.shape[1:]


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature, its inputs and outputs in alphabetical order.

    Attributes:
        inputs: {alias: endpoint}.
        outputs: {alias: endpoint}.
        defaults: {input alias: TensorProto} for optional inputs.
        definition: the SignatureDef itself.
        checks_method: whether it can only be called with its own method.
        explains: whether it explains predictions, at many times their cost.
        checks_shapes: whether inputs must fit their shapes; an axis may be missing, but none added or of another size.
        is_fragile: whether no axis may be missing either, because the graph could end the process.
    """

    inputs: dict[str, Endpoint]
    outputs: dict[str, Endpoint]
    defaults: dict[str, tensor_pb2.TensorProto]
    definition: meta_graph_pb2.SignatureDef
    checks_method: bool = False
    explains: bool = False
    checks_shapes: bool = False
    is_fragile: bool = False

    def has_method(self, *names: str) -> bool:
        """Whether one of these methods, such as `PREDICT`, may call it."""
        return not self.checks_method or self.definition.method_name in names

    @functools.cached_property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the feeds and fetches, without duplicates, in a fixed order independent of the request.

        All outputs are fetched, because TensorFlow would take seconds to prepare the graph for each selection of them.
        """
        feeds, fetches = ({e.tensor for e in side.values()} for side in (self.inputs, self.outputs))
        return tuple(sorted(feeds)), tuple(sorted(fetches))


def read_signature(
    definition: meta_graph_pb2.SignatureDef,
    checks_method: bool = False,
    explains: bool = False,
    checks_shapes: bool = False,
    is_fragile: bool = False,
) -> Signature:
    """Converts a SignatureDef to a Signature."""

    def read_endpoints(infos):
        endpoints = {}
        for alias in sorted(infos):
            info = infos[alias]
            shape = None
            if not info.tensor_shape.unknown_rank:
                shape = tuple(dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim)
            # The signature that TensorFlow adds for initialization has an operation as output, without tensor and type.
            if info.dtype:
                endpoints[alias] = Endpoint(info.name, as_dtype(info.dtype), shape)
        return endpoints

    return Signature(
        read_endpoints(definition.inputs), read_endpoints(definition.outputs), dict(definition.defaults), definition,
        checks_method, explains, checks_shapes, is_fragile,
    )  # fmt: skip


def _listed(sizes):
    shown = ["?" if size is None else str(size) for size in sizes[:_SHOWN_AXES]]
    return f"[{', '.join(shown)}{', ...' if len(sizes) > _SHOWN_AXES else ''}]"
