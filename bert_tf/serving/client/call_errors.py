"""Exceptions with advice for requests that a server rejects or does not respond to."""

import re
from collections.abc import Mapping

import grpc

from bert_tf.serving.client.channel import GONE
from bert_tf.serving.client.requests import DEFAULT, ModelSignature, TensorKind, clean, join_names, read_kinds
from bert_tf.utils.proxies import describe_proxy

# An overloaded server sends one of these phrases; gRPC's own messages without a server contain none of them.
_FULL = re.compile(r"\bqueue\b|\btry again later\b", re.IGNORECASE)
_AXES = 8  # shown in a message
_TOO_LONG = "CLIENT: Received message larger"  # gRPC's message if this side rejects it
WRONG = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)


def explain(error: grpc.RpcError, server: str, model_name: str, timeout: float) -> Exception:
    """Returns the exception to raise for `error`, a call that failed.

    Args:
        error: raised by gRPC.
        server, model_name, timeout: as in `Client`.

    Returns:
        ConnectionError if no server responds or it is overloaded, TimeoutError if the response took
        too long, otherwise ValueError.
    """
    code, details = error.code(), clean(error.details() or "")
    if code == grpc.StatusCode.UNAVAILABLE and _FULL.search(details):
        return ConnectionError(
            f"{server} is overloaded: {details.removesuffix('; try again later')}. Try again later, or send less at a "
            "time."
        )
    if code in GONE:
        return ConnectionError(
            f"No model server responded at {server}: {details}. Check that it is running, that this is its gRPC port "
            "and not its REST port, and that either both sides use TLS with trusted certificates or neither does."
            f"{describe_proxy(server)}"
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeoutError(
            f"{server} did not respond within {timeout:.3g} s. Increase `timeout`, or send "
            f"less at a time.{describe_proxy(server)}"
        )
    if code == grpc.StatusCode.NOT_FOUND:
        return ValueError(f"{server} does not serve a model {model_name!r}: {details}. Check `model_name`.")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in details:
        return ValueError(
            f"The response of {server} is too large ({details}). Send less at a time, or increase `max_response_bytes`."
        )
    return ValueError(f"{server} rejected the request with {code.name}: {details}")


def explain_refusal(request, signatures: Mapping[str, ModelSignature]) -> ValueError | None:
    """Returns how a rejected Predict request differs from the model's signature, or None if it matches.

    Args:
        request: the PredictRequest.
        signatures: signatures of the model, by name.
    """
    name = request.model_spec.signature_name or DEFAULT
    if name not in signatures:
        return ValueError(
            f"`signature` must be one of those of model {request.model_spec.name!r}: {join_names(signatures)}; got "
            f"{name!r}."
        )
    signature, sent = signatures[name], read_kinds(request.inputs)
    if set(sent) != set(signature.inputs):
        return _other_names(request, signature.text_inputs)
    wrong = [each for each in sent if not _fits(sent[each], signature.inputs[each])]
    return _other_kind(wrong[0], sent[wrong[0]], signature.inputs[wrong[0]]) if wrong else None


def _other_names(request, wanted):
    several, received = len(wanted) > 1, ", ".join(item.key for item in request.inputs) or "none"
    return ValueError(
        f"Model {request.model_spec.name!r} requires the input{'s' * several} {join_names(wanted)}; got "
        f"{received}. Name {'them' if several else 'it'} with `inputs`, in the order of the texts."
    )


def _other_kind(name, sent: TensorKind, wanted: TensorKind):
    if wanted.dtype == sent.dtype == "string" and (len(wanted.shape), len(sent.shape)) == (2, 1):
        return ValueError(
            f"Input {name!r} must be a list of texts for each example; got one text for each. Put the texts of an "
            'example into a list: ["She walks in.", "She leaves."].'
        )
    return ValueError(
        f"Input {name!r} must be {wanted.dtype} of shape {_words(wanted.shape)}; got {sent.dtype} of shape "
        f"{_words(sent.shape)}."
    )


def _fits(sent, wanted):
    if wanted.shape is None:
        return sent.dtype == wanted.dtype
    return (
        sent.dtype == wanted.dtype
        and len(sent.shape) == len(wanted.shape)
        and all(size in (None, each) for each, size in zip(sent.shape, wanted.shape, strict=True))
    )


def _words(shape):
    if shape is None:
        return "any"
    sizes = ["n" if size is None else str(size) for size in shape[:_AXES]]
    return f"[{', '.join(sizes + ['...'] * (len(shape) > _AXES))}]"
