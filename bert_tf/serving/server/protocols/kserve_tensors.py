"""The tensors of KServe's V2 protocol: their types, and checks that JSON, bytes and gRPC share."""

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from bert_tf.serving.errors import invalid, unimplemented
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.dtypes import DType, as_dtype
from bert_tf.serving.server.json_values import quoted
from bert_tf.serving.server.predict import check_input, wrong_count
from bert_tf.serving.server.signature_tensors import count_rows
from bert_tf.serving.server.signatures import MAX_AXES, Signature

PLATFORM = "tensorflow_savedmodel"
EXTENSIONS = ("binary_tensor_data",)
KINDS: dict[str, Any] = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16,
    "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_,
}  # fmt: skip
_NAMES = {as_dtype(kind): name for name, kind in KINDS.items()}
_MOST_INT64 = 2**63 - 1


def check_kserve_tensor(alias: str, datatype: str, shape: Sequence[Any], signature: Signature, limits: Limits) -> DType:
    """Returns the type of an input's tensor, before its elements are read.

    Args:
        alias: name of the input.
        datatype: name of the type, as the request has it.
        shape: sizes of the axes, as the request has them.
        signature: signature of the model.
        limits: limits of the request.

    Raises:
        ServingError: the tensor is malformed, too large or does not match the input.
    """
    if len(shape) > MAX_AXES:
        raise invalid(f"A tensor may have {MAX_AXES} axes and {alias} has {len(shape)}")
    if not all(type(size) is int and 0 <= size <= _MOST_INT64 for size in shape):
        raise invalid(f"'shape' of the input {alias} must be a list of sizes; got {quoted(list(shape))}")
    if datatype not in KINDS:
        raise invalid(f"'datatype' of the input {alias} must be {', '.join(KINDS)}; got {quoted(datatype)}")
    dtype = as_dtype(KINDS[datatype])
    limits.check_rows(count_rows(dtype.as_datatype_enum, shape))
    extent = math.prod(max(size, 1) for size in shape)  # the graph may derive a tensor from an empty one's other axes
    if extent > limits.max_tensor_elements:
        most = limits.max_tensor_elements
        raise invalid(f"A tensor may have {most} elements and {alias} has the shape {list(shape)}")
    check_input(signature, alias, dtype.as_datatype_enum, shape)
    return dtype


def check_input_name(alias: str, index: int, found: Collection[str], signature: Signature):
    """Raises ServingError if an input of a request is one of those found before it, or none of the signature's."""
    if alias in found:
        raise invalid(f"'inputs' at index {index} must not repeat the input {alias}")
    if alias not in signature.inputs:
        raise wrong_count([*found, alias], signature.inputs)


def check_output_name(alias: str, found: Collection[str], signature: Signature):
    """Raises ServingError if a requested output is one of those found before it, or none of the signature's."""
    if alias not in signature.outputs or alias in found:
        raise invalid(f"'outputs' must be different ones of {', '.join(signature.outputs)}; got {quoted(alias)}")


def output_datatypes(wanted: Collection[str], signature: Signature) -> dict[str, str]:
    """Returns {output: its datatype} of the requested outputs, or of all if none are; ServingError as `datatype_of`."""
    return {alias: datatype_of(signature.outputs[alias].dtype) for alias in wanted or signature.outputs}


def narrow(array: np.ndarray, dtype: DType, alias: str, datatype: str) -> np.ndarray:
    """Returns numbers in a narrower type; raises ServingError if one is finite and outside of its range."""
    bounds = (np.iinfo if dtype.is_integer else np.finfo)(dtype.as_numpy_dtype)
    least, most = int(bounds.min), int(bounds.max)
    outside = array[np.isfinite(array) & ((array < least) | (array > most))]
    if outside.size:
        raise invalid(f"The input {alias} must be {datatype}, from {least} to {most}; got {outside[0]}")
    return array.astype(dtype.as_numpy_dtype)


def datatype_of(dtype: DType) -> str:
    """Returns the name of a type; raises ServingError if the protocol has none for it."""
    try:
        return _NAMES[dtype]
    except KeyError as error:
        raise unimplemented(
            f"KServe's protocol has no data type for TensorFlow's {dtype.name}; request other outputs, or use "
            "TensorFlow Serving's protocol"
        ) from error


def tensor_metadata(alias: str, endpoint: Any) -> dict[str, Any]:
    """Returns the metadata of an input or output; -1 is a size that is not fixed."""
    shape = [-1 if size is None else size for size in endpoint.shape or ()]
    return {"name": alias, "datatype": datatype_of(endpoint.dtype), "shape": shape}


def available_versions(registry: Any, name: str) -> list[str]:
    """Returns the numbers of the versions of a model that answer, in ascending order."""
    states = registry.states(name)
    return [str(number) for number in sorted(states) if states[number].name == "AVAILABLE"]


def as_array(values: Any, dtype: DType) -> np.ndarray:
    """Returns an output as an array; strings are objects."""
    return np.asarray(values, object if dtype == as_dtype(np.object_) else None)
