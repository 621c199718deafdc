"""KServe's V2 protocol, the open inference protocol: health, metadata and infer, with tensors in JSON."""

import math
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np

import bert_tf
from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.dtypes import DType, as_dtype
from bert_tf.serving.server.json_values import json_to_array, quoted
from bert_tf.serving.server.predict import check_input, run_predict, wrong_count
from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol, checked_members, member
from bert_tf.serving.server.protocols.served_tasks import leased_model
from bert_tf.serving.server.rest_targets import find_signature, read_version
from bert_tf.serving.server.signature_tensors import count_rows
from bert_tf.serving.server.signatures import MAX_AXES

_DTYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16,
    "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_,
}  # fmt: skip
# Types of inputs that are read as larger ones, since a cast would wrap numbers outside of their range.
_WIDER = {"UINT8": np.int64, "UINT16": np.int64, "INT8": np.int64, "INT16": np.int64, "FP16": np.float32}
_NAMES = {as_dtype(kind): name for name, kind in _DTYPES.items()}
_BINARY = "Inference-Header-Content-Length"
_REMEDY = " (tritonclient: binary_data=False for each input and requested output)"
_MOST_INT64 = 2**63 - 1
_MODEL = r"/v2/models/([^/]+)(?:/versions/([0-9]+))?"


def _server(request: AdapterRequest) -> str:
    return json_responses.document({"name": "bert_tf", "version": bert_tf.__version__, "extensions": []})


def _metadata(request: AdapterRequest) -> str:
    with leased_model(request, _name(request)) as version:
        signature = find_signature(version)
        states = request.registry.states(version.name)
        versions = [number for number in sorted(states) if states[number].name == "AVAILABLE"]
        return json_responses.document(
            {
                "name": version.name,
                "versions": list(map(str, versions)),
                "platform": "tensorflow_savedmodel",
                "inputs": [_describe(alias, each) for alias, each in signature.inputs.items()],
                "outputs": [_describe(alias, each) for alias, each in signature.outputs.items()],
            }
        )


def _ready(request: AdapterRequest) -> str:
    with leased_model(request, _name(request)) as version:
        return json_responses.document({"name": version.name, "ready": True})


def _infer(request: AdapterRequest) -> str:
    name = _name(request)
    if _BINARY in request.call.headers:
        raise invalid(f"{_BINARY} announces tensors in bytes, which are not supported; send them in JSON{_REMEDY}")
    members = request.members(("inputs",), ("id", "outputs", "parameters"))
    identity = member(members, "id", str)
    more = _parameters(members, ("signature_name", "binary_data_output"))
    with leased_model(request, name) as version:
        signature = find_signature(version, member(more, "signature_name", str))
        inputs = _inputs(member(members, "inputs", list), signature, request.call.limits)
        wanted = _outputs(member(members, "outputs", list), signature)
        outputs = run_predict(version, signature, inputs, wanted, request.call)
        answer = {"model_name": version.name, "model_version": str(version.number)}
        answer |= {} if identity is None else {"id": identity}
        written = [_tensor(alias, outputs[alias], signature.outputs[alias].dtype) for alias in outputs]
    return json_responses.document(answer | {"outputs": written})


def _parameters(members, known):
    """Returns the members of `parameters`; raises ServingError if they ask for tensors in bytes."""
    found = checked_members(members.get("parameters", {}), (), known, "'parameters'")
    if any(member(found, name, bool, False) for name in known if name.startswith("binary_data")):
        raise invalid(f"Tensors in bytes are not supported; ask for JSON{_REMEDY}")
    return found


def _name(request):
    """Returns the model's name of a path; its version goes into the request's ModelSpec."""
    name, number = request.groups
    if number:
        request.spec.version.value = read_version(number)
    return urllib.parse.unquote(name)


def _inputs(tensors, signature, limits):
    """Returns {input alias: array} of the tensors of a request."""
    found: dict[str, np.ndarray] = {}
    for i, tensor in enumerate(tensors):
        where = f"'inputs' at index {i}"
        members = checked_members(tensor, ("name", "shape", "datatype", "data"), ("parameters",), where)
        alias = member(members, "name", str)
        _parameters(members, ())
        if alias in found:
            raise invalid(f"{where} must not repeat the input {alias}")
        if alias not in signature.inputs:
            raise wrong_count([*found, alias], signature.inputs)
        found[alias] = _array(members, alias, signature, limits)
    if len(found) < len(signature.inputs):
        raise wrong_count(found, signature.inputs)
    return found


def _array(members: Mapping[str, Any], alias, signature, limits) -> np.ndarray:
    """Returns the array of a tensor whose data are nested, or flat in row-major order.

    Raises:
        ServingError: the tensor is malformed, too large or does not match the input.
    """
    shape, datatype = member(members, "shape", list), member(members, "datatype", str)
    if not all(type(size) is int and 0 <= size <= _MOST_INT64 for size in shape):
        raise invalid(f"'shape' of the input {alias} must be a list of sizes; got {quoted(shape)}")
    if len(shape) > MAX_AXES:
        raise invalid(f"A tensor may have {MAX_AXES} axes and {alias} has {len(shape)}")
    if datatype not in _DTYPES:
        raise invalid(f"'datatype' of the input {alias} must be {', '.join(_DTYPES)}; got {quoted(datatype)}")
    dtype = as_dtype(_DTYPES[datatype])
    limits.check_rows(count_rows(dtype.as_datatype_enum, shape))
    check_input(signature, alias, dtype.as_datatype_enum, shape)
    wider = as_dtype(_WIDER.get(datatype, _DTYPES[datatype]))
    array = json_to_array(member(members, "data", list), wider, limits)
    if list(array.shape) not in (shape, [math.prod(shape)]):
        raise invalid(f"'data' of the input {alias} must have {math.prod(shape)} elements, as in its shape {shape}")
    if datatype in _WIDER:
        array = _narrow(array, dtype, alias, datatype)
    return array.reshape(shape)


def _narrow(array, dtype, alias, datatype):
    """Returns numbers in a narrower type; raises ServingError if one is finite and outside of its range."""
    bounds = (np.iinfo if dtype.is_integer else np.finfo)(dtype.as_numpy_dtype)
    least, most = int(bounds.min), int(bounds.max)
    outside = array[np.isfinite(array) & ((array < least) | (array > most))]
    if outside.size:
        raise invalid(f"'data' of the input {alias} must be {datatype}, from {least} to {most}; got {outside[0]}")
    return array.astype(dtype.as_numpy_dtype)


def _outputs(tensors, signature):
    """Returns the names of the requested outputs, or none for all."""
    found: list[str] = []
    for i, tensor in enumerate(tensors or ()):
        members = checked_members(tensor, ("name",), ("parameters",), f"'outputs' at index {i}")
        alias = member(members, "name", str)
        _parameters(members, ("binary_data",))
        if alias not in signature.outputs or alias in found:
            raise invalid(f"'outputs' must be different ones of {', '.join(signature.outputs)}; got {quoted(alias)}")
        found.append(alias)
    return found


def _tensor(alias, array, dtype: DType):
    array = np.asarray(array, object if dtype == as_dtype(np.object_) else None)
    return {"name": alias, "datatype": _datatype(dtype), "shape": list(array.shape), "data": array.ravel()}


def _describe(alias, endpoint):
    shape = [-1 if size is None else size for size in endpoint.shape or ()]
    return {"name": alias, "datatype": _datatype(endpoint.dtype), "shape": shape}


def _datatype(dtype):
    try:
        return _NAMES[dtype]
    except KeyError as error:
        raise invalid(f"KServe's protocol has no data type for TensorFlow's {dtype.name}") from error


_ROUTES = {
    ("GET", "/v2/?"): _server,
    ("GET", _MODEL): _metadata,
    ("GET", f"{_MODEL}/ready"): _ready,
    ("POST", f"{_MODEL}/infer"): _infer,
}
KSERVE_V2 = Protocol("kserve_v2", _ROUTES, ready_paths=("/v2/health/ready",), live_paths=("/v2/health/live",))
