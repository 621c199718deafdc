"""Predict: runs any signature on any tensors.

The checks, their order and their messages are those of TensorFlow Serving's `predict_util.cc` and TensorFlow's
`cc/saved_model/util.cc`.
"""

import contextlib
import re
import time
from collections.abc import Iterable, Sequence

import grpc
import numpy as np

from bert_tf.serving.errors import ServingError, failed_precondition, invalid, unimplemented
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server import metrics
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.signature_tensors import check_tensor, fill_proto, proto_to_array, type_name
from bert_tf.serving.server.signatures import CLASSIFY, PREDICT, REGRESS
from bert_tf.serving.server.tensorflow_messages import predict_pb2, tensor_pb2

DEFAULT_SIGNATURE = "serving_default"
_NODES = re.compile(r"\[\[.*\]\]|\{\{[^}]*\}\}")  # names of operations in TensorFlow's messages
_OF_THE_SERVER = (  # codes of errors that do not depend on the inputs
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)


def predict(
    version, request: predict_pb2.PredictRequest, call: RequestContext = INTERNAL
) -> predict_pb2.PredictResponse:
    """Runs a PredictRequest on the given version, ignoring name and version in its ModelSpec.

    Raises:
        ServingError: the request does not match the signature, or the graph rejects it.
    """
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None:
        raise failed_precondition(f'Serving signature key "{name}" not found.')
    check_method(signature)
    inputs = _inputs(signature, request.inputs, call.limits)
    aliases = _aliases(signature, request.output_filter)
    response = predict_pb2.PredictResponse()
    set_spec(response.model_spec, version, name)
    for alias, array in run_predict(version, signature, inputs, aliases, call).items():
        fill_proto(response.outputs[alias], array, signature.outputs[alias].dtype, call.tensor_content)
    return response


def run_predict(
    version,
    signature,
    inputs: dict[str, np.ndarray],
    aliases: Sequence[str] = (),
    call: RequestContext = INTERNAL,
    api: str = "Predict",
) -> dict[str, np.ndarray]:
    """Computes the outputs `aliases` (all if empty) of a signature from {input alias: array}.

    Raises:
        ServingError: the request exceeds its limits or the server's capacity, or the graph rejects it.
    """
    aliases = aliases or list(signature.outputs)
    sequences = version.model.sequences
    sequences.check(signature, inputs)
    plan = sequences.plan(signature, inputs)
    held = contextlib.nullcontext()
    if call is not INTERNAL:  # warm-up is bounded by its file, and must not fail because the server is busy
        call.limits.check_tokens(plan.tokens)
        held = version.scheduler.requests.take(plan.tokens)
    started = time.monotonic()
    with held, call.work.paused(call):
        try:
            if version.batched:  # which has its own parts
                outputs = version.batched(signature, inputs, aliases, call)
            else:
                outputs = version.compute(signature, inputs, aliases, call, plan)
        except ServingError as error:
            if explained := _explain_shapes(error, signature, inputs):
                raise explained from error
            raise
    metrics.RUNTIME_LATENCY.labels(version.name, api, "TF1").observe((time.monotonic() - started) * 1e6)
    counts = version.model.token_counts.take()
    if call is not INTERNAL:
        metrics.observe_tokens(version.name, counts)
    for alias, array in outputs.items():
        call.limits.check_output(alias, np.size(array))
    hold_response(version, sum(map(np.size, outputs.values())), call)
    return outputs


def hold_response(version, elements: int, call: RequestContext):
    """Holds the budget of a response of this many elements until it is sent; raises ServingError if there is none."""
    if call.until_sent is not None:  # a warm-up's response is not sent, so nothing would end the turn
        call.until_sent.enter_context(version.scheduler.answers.take(elements))
        call.work.grow(call, elements)


def read_input(signature, alias: str, proto: tensor_pb2.TensorProto, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the array of an input of a signature.

    Raises:
        ServingError: the tensor is malformed, too large or does not match the input; no memory was allocated for it.
    """
    check_tensor(proto, alias, limits)
    check_input(signature, alias, proto.dtype, [dim.size for dim in proto.tensor_shape.dim])
    return proto_to_array(proto, alias)


def check_input(signature, alias: str, datatype: int, sizes: Sequence[int]):
    """Raises ServingError if an input does not accept a tensor of this type (a number in DataType) and shape.

    As in TensorFlow Serving, the graph decides on shapes: its half_plus_three accepts [n] where the signature has [].
    An export of ours is asked only for the shapes of its signature, since others have no meaning in it.
    """
    endpoint = signature.inputs[alias]
    if not endpoint.tensor:  # a sparse or composite one
        raise unimplemented(f"Input {alias} must be one tensor of the graph, but in this signature it is several")
    if datatype != endpoint.dtype.as_datatype_enum:
        # The session would reject another type too, but not always with this message.
        index, wanted = list(signature.inputs).index(alias), type_name(endpoint.dtype.as_datatype_enum)
        raise invalid(f"Expects arg[{index}] to be {wanted} but {type_name(datatype)} is provided")
    is_whole = signature.is_fragile or len(sizes) >= len(endpoint.shape or ())
    if signature.checks_shapes and is_whole and not endpoint.fits(sizes):
        raise invalid(endpoint.describe_misfit(alias, sizes))


def wrong_count(given: Iterable[str], wanted: Iterable[str]) -> ServingError:
    """Returns the error of a request that has more or fewer inputs, by alias, than the signature."""
    given, wanted = set(given), set(wanted)
    return invalid(
        f"input size does not match signature: {len(given)}!={len(wanted)} "
        f"len({{{_listed(given)}}}) != len({{{_listed(wanted)}}}). Sent extra: {{{_listed(given - wanted)}}}. "
        f"Missing but required: {{{_listed(wanted - given)}}}."
    )


def check_method(signature):
    """Raises ServingError if a signature is for another method and the server checks this."""
    methods = (PREDICT, CLASSIFY, REGRESS)
    if not signature.has_method(*methods):
        raise ServingError(
            grpc.StatusCode.INTERNAL,
            f"Expected prediction signature method_name to be one of {{{', '.join(methods)}}}. "
            f"Was: {signature.definition.method_name}",
        )


def set_spec(spec, version, signature_name: str):
    """Writes the model, version and signature into a response's ModelSpec."""
    spec.name = version.name
    spec.version.value = version.number
    spec.signature_name = signature_name


def _explain_shapes(error, signature, inputs):
    """Returns the graph's error with the first input that does not fit the signature before it; None if all fit."""
    if error.code not in _OF_THE_SERVER:
        for alias, array in inputs.items():
            endpoint = signature.inputs[alias]
            if not endpoint.fits(np.shape(array)):
                words = _NODES.sub("", error.message).strip()
                return invalid(f"{endpoint.describe_misfit(alias, np.shape(array))}: {words}")
    return None


def _inputs(signature, protos, limits):
    """Returns {alias: array} for every input of the signature."""
    if len(protos) > len(signature.inputs) or (len(protos) < len(signature.inputs) and not signature.defaults):
        raise wrong_count(protos, signature.inputs)
    arrays = {}
    for alias, endpoint in signature.inputs.items():
        if alias in protos:
            proto = protos[alias]
        elif alias in signature.defaults:
            proto = signature.defaults[alias]
        else:
            raise invalid(
                f"Signature input alias: {alias}(feed name: {endpoint.tensor}) not found in request and no default "
                f"value provided. Inputs expected to be in the request {{{_listed(protos)}}}, or default input alias "
                f"set: {_listed(signature.defaults)}"
            )
        arrays[alias] = read_input(signature, alias, proto, limits)
    if set(protos) - set(arrays):
        used = set(protos) & set(arrays)
        raise invalid(
            f"Inputs contains invalid name. Used request inputs: {_listed(used)}, request input: {_listed(protos)}"
        )
    return arrays


def _aliases(signature, output_filter):
    """Returns the requested outputs, or none for all."""
    for i, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{_listed(signature.outputs)}}}."
            )
        if alias in output_filter[:i]:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return list(output_filter)


def _listed(names):
    return ",".join(sorted(names))
