"""KServe's V2 protocol over gRPC: GRPCInferenceService on the port of TensorFlow Serving's services."""

import math
from typing import Any

import numpy as np
from grpc import StatusCode

import bert_tf
from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.server.grpc_method import Method
from bert_tf.serving.server.json_values import quoted
from bert_tf.serving.server.model_status import is_ready, ready
from bert_tf.serving.server.predict import run_predict, wrong_count
from bert_tf.serving.server.protocols import kserve_messages as messages
from bert_tf.serving.server.protocols.kserve_binary import read_tensor, write_tensor
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
from bert_tf.serving.server.rest_targets import find_signature, read_version
from bert_tf.serving.server.tensorflow_messages import model_pb2

_FIELDS = {
    "BOOL": "bool_contents", **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"), "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"), "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
_NARROW = ("INT8", "INT16", "UINT8", "UINT16")
_SIGNATURE = "signature_name"


def _spec(name: str, number: str) -> model_pb2.ModelSpec:
    if not name:
        raise invalid("The name of the model must not be empty")
    spec = model_pb2.ModelSpec(name=name)
    if number and not (number.isascii() and number.isdecimal()):
        raise invalid(f"The version of the model must be a number; got {quoted(number)}")
    if number:
        spec.version.value = read_version(number)
    return spec


def _counted_spec(request):
    """Returns the ModelSpec that metrics count a request for; the handler reports an invalid version."""
    return model_pb2.ModelSpec(name=request.model_name)


def _server_metadata(registry, request, call):
    return messages.ServerMetadataResponse(name="bert_tf", version=bert_tf.__version__, extensions=EXTENSIONS)


def _model_ready(registry, request, call):
    try:
        with registry.lease(_spec(request.name, request.version)):
            return messages.ModelReadyResponse(ready=True)
    except ServingError as error:
        if error.code not in (StatusCode.NOT_FOUND, StatusCode.UNAVAILABLE):
            raise
        return messages.ModelReadyResponse(ready=False)


def _model_metadata(registry, request, call):
    with registry.lease(_spec(request.name, request.version)) as version:
        signature = find_signature(version)
        return messages.ModelMetadataResponse(
            name=version.name,
            versions=available_versions(registry, version.name),
            platform=PLATFORM,
            inputs=[tensor_metadata(alias, each) for alias, each in signature.inputs.items()],
            outputs=[tensor_metadata(alias, each) for alias, each in signature.outputs.items()],
        )


def _infer(registry, request, call):
    name = _signature_name(request.parameters)
    with registry.lease(_spec(request.model_name, request.model_version)) as version:
        signature = find_signature(version, name)
        inputs = _inputs(request, signature, call.limits)
        wanted = _outputs(request.outputs, signature)
        kinds = output_datatypes(wanted, signature)
        outputs = run_predict(version, signature, inputs, wanted, call)
        answer = messages.ModelInferResponse(
            model_name=version.name, model_version=str(version.number), id=request.id
        )
        arrays = {alias: as_array(values, signature.outputs[alias].dtype) for alias, values in outputs.items()}
        _add_outputs(answer, arrays, kinds, bool(request.raw_input_contents))
    return answer


def _signature_name(parameters):
    """Returns the name of the requested signature, or None."""
    _check_parameters(parameters, (_SIGNATURE,), "The request")
    for each in parameters:
        kinds = [field.name for field, _ in each.value.ListFields()]
        if kinds != ["string_param"]:
            raise invalid(f"The parameter {_SIGNATURE} must be a non-empty string; got {', '.join(kinds) or 'none'}")
        return each.value.string_param
    return None


def _check_parameters(parameters, known, where):
    """Raises ServingError if there is a parameter with another name, or the same twice."""
    names = [each.key for each in parameters]
    for name in names:
        if name not in known or names.count(name) > 1:
            allowed = ", ".join(known) or "none"
            raise invalid(f"{where} has the parameter {quoted(name)}; it may have {allowed}, once")


def _inputs(request, signature, limits) -> dict[str, np.ndarray]:
    """Returns {input alias: array}; raises ServingError if the tensors do not match the signature."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise invalid(
            f"'raw_input_contents' must have one entry for each of {len(request.inputs)} inputs; got {len(raw)}"
        )
    found: dict[str, np.ndarray] = {}
    for i, tensor in enumerate(request.inputs):
        alias = tensor.name
        _check_parameters(tensor.parameters, (), f"'inputs' at index {i}")
        check_input_name(alias, i, found, signature)
        dtype = check_kserve_tensor(alias, tensor.datatype, tensor.shape, signature, limits)
        _check_fields(tensor, None if raw else _FIELDS.get(tensor.datatype))
        if raw:
            found[alias] = read_tensor(memoryview(raw[i]), tensor.shape, KINDS[tensor.datatype], alias, limits)
        else:
            found[alias] = _contents(tensor, dtype, limits)
    if len(found) < len(signature.inputs):
        raise wrong_count(found, signature.inputs)
    return found


def _check_fields(tensor, allowed):
    """Raises ServingError if `contents` has elements in another field than the allowed one."""
    for field, _ in tensor.contents.ListFields():
        if field.name != allowed:
            raise invalid(
                f"'contents' of the input {tensor.name} must have {allowed or 'no elements'}, because of its datatype "
                f"or 'raw_input_contents'; got {field.name}; remove it"
            )


def _contents(tensor, dtype, limits):
    """Returns the array of a tensor whose elements are in `contents`."""
    alias, datatype, count = tensor.name, tensor.datatype, math.prod(tensor.shape)
    if datatype not in _FIELDS:
        raise invalid(f"The input {alias} must be in 'raw_input_contents', because it is {datatype}")
    values = getattr(tensor.contents, _FIELDS[datatype])
    if len(values) != count:
        raise invalid(
            f"'{_FIELDS[datatype]}' of the input {alias} must have {count} elements, according to its shape; got "
            f"{len(values)}"
        )
    if datatype == "BYTES":
        limits.check_texts([*map(len, values)])
        array: Any = np.empty(count, object)
        array[:] = list(values)
    elif datatype in _NARROW:
        array = narrow(np.array(values, np.int64), dtype, alias, datatype)
    else:
        array = np.array(values, KINDS[datatype])
    return array.reshape(tuple(tensor.shape))


def _outputs(wanted, signature) -> list[str]:
    """Returns the names of the requested outputs, or none for all."""
    found: list[str] = []
    for i, each in enumerate(wanted):
        _check_parameters(each.parameters, (), f"'outputs' at index {i}")
        check_output_name(each.name, found, signature)
        found.append(each.name)
    return found


def _add_outputs(answer, arrays, kinds, in_bytes):
    """Adds outputs to a response: all in bytes, if the inputs were or if one cannot be written otherwise, or none."""
    in_bytes = in_bytes or not set(kinds.values()) <= _FIELDS.keys()
    for alias, array in arrays.items():
        output = answer.outputs.add(name=alias, datatype=kinds[alias], shape=array.shape)
        if in_bytes:
            answer.raw_output_contents.append(write_tensor(array))
        else:
            getattr(output.contents, _FIELDS[kinds[alias]]).extend(array.ravel().tolist())


METHODS = {
    messages.SERVICE: {
        "ServerLive": Method(
            messages.ServerLiveRequest, lambda registry, request, call: messages.ServerLiveResponse(live=True)
        ),
        "ServerReady": Method(
            messages.ServerReadyRequest,
            lambda registry, request, call: messages.ServerReadyResponse(ready=is_ready(ready(registry))),
        ),
        "ModelReady": Method(messages.ModelReadyRequest, _model_ready),
        "ServerMetadata": Method(messages.ServerMetadataRequest, _server_metadata),
        "ModelMetadata": Method(messages.ModelMetadataRequest, _model_metadata),
        "ModelInfer": Method(messages.ModelInferRequest, _infer, counts=True, spec=_counted_spec),
    }
}
