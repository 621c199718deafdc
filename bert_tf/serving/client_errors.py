"""What the user can do where a server does not answer a request, or refuses it."""

import re
from collections.abc import Iterable

import grpc

# TensorFlow Serving's words where too few or too many inputs came, and where one has another name (predict_util.cc).
_WANTED = re.compile(r"input size does not match signature: .* != len\(\{([^}]*)\}\)")
_ABSENT = re.compile(r"Signature input alias: ([^(]+)\(feed name: ")


def explained(error: grpc.RpcError, server: str, model_name: str, timeout: float, inputs: Iterable[str]) -> Exception:
    """Returns the exception to raise for `error`, a Predict that failed.

    Args:
        error: as gRPC raised it.
        server, model_name, timeout: as `Client` has them.
        inputs: names of what was sent.

    Returns:
        ConnectionError where nothing answers, TimeoutError where the answer was too long in coming, else ValueError.
    """
    code, details = error.code(), error.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        return ConnectionError(
            f"A model server must answer at {server}. Received: {details}; is it running, and is that its gRPC port "
            "rather than the one for REST?"
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeoutError(
            f"{server} must answer within {timeout:g} s. Received nothing; allow more with `timeout`, or ask for less "
            "at a time."
        )
    if code == grpc.StatusCode.NOT_FOUND:
        return ValueError(
            f"Model {model_name!r} must be one that {server} serves. Received: {details}; check `model_name`."
        )
    if match := _WANTED.search(details) or _ABSENT.search(details):
        wanted = sorted(match[1].split(","))
        return ValueError(
            f"Model {model_name!r} must be asked with the input{'s' * (len(wanted) > 1)} {', '.join(wanted)}. Received "
            f"{', '.join(inputs) or 'none'}; name {'them' if len(wanted) > 1 else 'it'} with `inputs`, in the order of "
            "the texts."
        )
    return ValueError(f"{server} must accept the request. Received {code.name}: {details}")
