"""What the user can do where a server does not answer a request, or refuses it."""

import re
from collections.abc import Mapping

import grpc

from bert_tf.serving.client.channel import GONE
from bert_tf.serving.client.requests import DEFAULT, Signature, TensorKind, clean, listed, sent_kinds

# A server that is there and has no room says so in words of its own; what gRPC says without a server has none of them.
_FULL = re.compile(r"\bqueue\b", re.IGNORECASE)
_AXES = 8  # that a message shows
_TOO_LONG = "CLIENT: Received message larger"  # gRPC's words where it is this side that refuses
WRONG = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)


def explain(error: grpc.RpcError, server: str, model_name: str, timeout: float) -> Exception:
    """Returns the exception to raise for `error`, a call that failed.

    Args:
        error: as gRPC raised it.
        server, model_name, timeout: as `Client` has them.

    Returns:
        ConnectionError where nothing answers or the server has no room, TimeoutError where the answer was too long in
        coming, else ValueError.
    """
    code, details = error.code(), clean(error.details() or "")
    if code == grpc.StatusCode.UNAVAILABLE and _FULL.search(details):
        return ConnectionError(
            f"{server} must have room for the request. Received: {details}; ask later, or for less at a time."
        )
    if code in GONE:
        return ConnectionError(
            f"A model server must answer at {server}. Received: {details}; is it running, is that its gRPC port rather "
            "than the one for REST, and are both sides encrypted, with certificates that they trust, or neither?"
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeoutError(
            f"{server} must answer within {timeout:.3g} s. Received nothing; allow more with `timeout`, or ask for "
            "less at a time."
        )
    if code == grpc.StatusCode.NOT_FOUND:
        return ValueError(
            f"Model {model_name!r} must be one that {server} serves. Received: {details}; check `model_name`."
        )
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in details:
        return ValueError(
            f"An answer of {server} must be no longer than is allowed. Received a longer one ({details}); ask for less "
            "at a time, or allow more with `max_answer_bytes`."
        )
    return ValueError(f"{server} must accept the request. Received {code.name}: {details}")


def find_fault(request, signatures: Mapping[str, Signature]) -> ValueError | None:
    """Returns what is wrong with a Predict that was refused, held against what the model takes; None: nothing is seen.

    Args:
        request: the PredictRequest.
        signatures: of the model, by name.
    """
    name = request.model_spec.signature_name or DEFAULT
    if name not in signatures:
        return ValueError(
            f"`signature` must be one that model {request.model_spec.name!r} has: {listed(signatures)}. Received: "
            f"{name!r}; choose one of them."
        )
    signature, sent = signatures[name], sent_kinds(request)
    if set(sent) != set(signature.inputs):
        return _other_names(request, signature.text_inputs)
    wrong = [each for each in sent if not _fits(sent[each], signature.inputs[each])]
    return _other_kind(wrong[0], sent[wrong[0]], signature.inputs[wrong[0]]) if wrong else None


def _other_names(request, wanted):
    several, received = len(wanted) > 1, ", ".join(item.key for item in request.inputs) or "none"
    return ValueError(
        f"Model {request.model_spec.name!r} must be asked with the input{'s' * several} {listed(wanted)}. Received "
        f"{received}; name {'them' if several else 'it'} with `inputs`, in the order of the texts."
    )


def _other_kind(name, sent: TensorKind, wanted: TensorKind):
    if wanted.dtype == sent.dtype == "string" and (len(wanted.shape), len(sent.shape)) == (2, 1):
        return ValueError(
            f"Input {name!r} must be a list of texts for each example. Received one text for each; put those of an "
            'example into a list: ["She walks in.", "She leaves."].'
        )
    return ValueError(
        f"Input {name!r} must be {wanted.dtype} of shape {_words(wanted.shape)}. Received {sent.dtype} of shape "
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
