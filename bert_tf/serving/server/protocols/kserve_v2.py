"""KServe's V2 protocol, the open inference protocol: health, metadata and infer, with tensors in JSON or in bytes."""

import math
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np

import bert_tf
from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.json_values import json_to_array
from bert_tf.serving.server.predict import run_predict, wrong_count
from bert_tf.serving.server.protocols.adapter import (
    AdapterRequest,
    BinaryResponse,
    Protocol,
    checked_members,
    member,
)
from bert_tf.serving.server.protocols.kserve_binary import SIZE, binary_response, read_tensor, split_body, write_tensor
from bert_tf.serving.server.protocols.kserve_tensors import (
    EXTENSIONS,
    KINDS,
    PLATFORM,
    as_array,
    available_versions,
    check_input_name,
    check_kserve_tensor,
    check_output_name,
    narrow,
    output_datatypes,
    tensor_metadata,
)
from bert_tf.serving.server.protocols.served_tasks import leased_model
from bert_tf.serving.server.rest_targets import find_signature, read_version

# Types of inputs that are read as larger ones, since a cast would wrap numbers outside of their range.
_WIDER = {"UINT8": np.int64, "UINT16": np.int64, "INT8": np.int64, "INT16": np.int64, "FP16": np.float32}
_MODEL = r"/v2/models/([^/]+)(?:/versions/([0-9]+))?"


def _server(request: AdapterRequest) -> str:
    answer = {"name": "bert_tf", "version": bert_tf.__version__, "extensions": list(EXTENSIONS)}
    return json_responses.document(answer)


def _metadata(request: AdapterRequest) -> str:
    with leased_model(request, _name(request)) as version:
        signature = find_signature(version)
        return json_responses.document(
            {
                "name": version.name,
                "versions": available_versions(request.registry, version.name),
                "platform": PLATFORM,
                "inputs": [tensor_metadata(alias, each) for alias, each in signature.inputs.items()],
                "outputs": [tensor_metadata(alias, each) for alias, each in signature.outputs.items()],
            }
        )


def _ready(request: AdapterRequest) -> str:
    with leased_model(request, _name(request)) as version:
        return json_responses.document({"name": version.name, "ready": True})


def _infer(request: AdapterRequest) -> str | BinaryResponse:
    name = _name(request)
    request.body, data = split_body(request.body, request.call.headers)
    members = request.members(("inputs",), ("id", "outputs", "parameters"))
    identity = member(members, "id", str)
    more = _parameters(members, ("signature_name", "binary_data_output"))
    in_bytes = member(more, "binary_data_output", bool, False)
    with leased_model(request, name) as version:
        signature = find_signature(version, member(more, "signature_name", str))
        inputs = _inputs(member(members, "inputs", list), signature, request.call.limits, data)
        wanted = _outputs(member(members, "outputs", list), signature, in_bytes)
        kinds = output_datatypes(wanted, signature)
        outputs = run_predict(version, signature, inputs, list(wanted), request.call)
        answer = {"model_name": version.name, "model_version": str(version.number)}
        answer |= {} if identity is None else {"id": identity}
        written, tensors = [], []
        for alias, array in outputs.items():
            array = as_array(array, signature.outputs[alias].dtype)
            tensor = {"name": alias, "datatype": kinds[alias], "shape": list(array.shape)}
            if wanted.get(alias, in_bytes):
                tensors.append(write_tensor(array))
                written.append(tensor | {"parameters": {SIZE: len(tensors[-1])}})
            else:
                written.append(tensor | {"data": array.ravel()})
    document = json_responses.document(answer | {"outputs": written})
    return binary_response(document, tensors) if tensors else document


def _parameters(members, known):
    """Returns the members of `parameters`."""
    return checked_members(members.get("parameters", {}), (), known, "'parameters'")


def _name(request):
    """Returns the model's name of a path; its version goes into the request's ModelSpec."""
    name, number = request.groups
    if number:
        request.spec.version.value = read_version(number)
    return urllib.parse.unquote(name)


def _inputs(tensors, signature, limits, data):
    """Returns {input alias: array} of the tensors of a request; `data` has those in bytes."""
    found: dict[str, np.ndarray] = {}
    for i, tensor in enumerate(tensors):
        where = f"'inputs' at index {i}"
        members = checked_members(tensor, ("name", "shape", "datatype"), ("data", "parameters"), where)
        alias = member(members, "name", str)
        size = member(_parameters(members, (SIZE,)), SIZE, int)
        if (size is None) is ("data" not in members):
            raise invalid(f"{where} must have either the member 'data' or the parameter '{SIZE}'")
        check_input_name(alias, i, found, signature)
        found[alias] = _array(members, alias, signature, limits, None if size is None else data.take(size, alias))
    data.check_end()
    if len(found) < len(signature.inputs):
        raise wrong_count(found, signature.inputs)
    return found


def _array(members: Mapping[str, Any], alias, signature, limits, data: memoryview | None) -> np.ndarray:
    """Returns the array of a tensor whose data are nested, or flat in row-major order, or in the bytes `data`.

    Raises:
        ServingError: the tensor is malformed, too large or does not match the input.
    """
    shape, datatype = member(members, "shape", list), member(members, "datatype", str)
    dtype = check_kserve_tensor(alias, datatype, shape, signature, limits)
    if data is not None:
        return read_tensor(data, shape, KINDS[datatype], alias, limits)
    wider = as_dtype(_WIDER.get(datatype, KINDS[datatype]))
    array = json_to_array(member(members, "data", list), wider, limits)
    if list(array.shape) not in (shape, [math.prod(shape)]):
        raise invalid(f"'data' of the input {alias} must have {math.prod(shape)} elements, as in its shape {shape}")
    if datatype in _WIDER:
        array = narrow(array, dtype, alias, datatype)
    return array.reshape(shape)


def _outputs(tensors, signature, in_bytes):
    """Returns {requested output: whether it is to be in bytes}, or none for all."""
    found: dict[str, bool] = {}
    for i, tensor in enumerate(tensors or ()):
        members = checked_members(tensor, ("name",), ("parameters",), f"'outputs' at index {i}")
        alias = member(members, "name", str)
        check_output_name(alias, found, signature)
        found[alias] = member(_parameters(members, ("binary_data",)), "binary_data", bool, in_bytes)
    return found


_ROUTES = {
    ("GET", "/v2/?"): _server,
    ("GET", _MODEL): _metadata,
    ("GET", f"{_MODEL}/ready"): _ready,
    ("POST", f"{_MODEL}/infer"): _infer,
}
KSERVE_V2 = Protocol("kserve_v2", _ROUTES, ready_paths=("/v2/health/ready",), live_paths=("/v2/health/live",))
