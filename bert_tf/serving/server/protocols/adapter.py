"""What the adapters of other protocols are made of: routes, and requests with checked members."""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_requests, json_responses
from bert_tf.serving.server.json_values import kind, quoted
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.tensorflow_messages import model_pb2

_NAMES = {str: "a string", bool: "true or false", int: "a whole number", list: "a list", dict: "an object"}


class BinaryResponse(NamedTuple):
    """A response that is not text.

    Attributes:
        data: the body.
        headers: additional headers.
    """

    data: bytes
    headers: Mapping[str, str]


@dataclasses.dataclass
class AdapterRequest:
    """A request in another protocol.

    Attributes:
        registry: registry of the served models.
        protocol: the protocol in whose form errors are written and whose name metrics count; an adapter may set another
            one.
        path: path of the request.
        groups: the groups of the route's pattern.
        body: body of the request.
        call: context of the request.
        spec: the model that metrics count the request for; an adapter fills in its name once that is known.
    """

    registry: Any
    protocol: "Protocol"
    path: str
    groups: tuple[str | None, ...] = ()
    body: bytes = b""
    call: RequestContext = INTERNAL
    spec: model_pb2.ModelSpec = dataclasses.field(default_factory=model_pb2.ModelSpec)

    @functools.cached_property
    def document(self) -> Any:
        """The JSON value that the body is; raises ServingError if it is none."""
        return json_requests.parse_whole(self.body, self.call.limits)

    def members(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the members of the body, a JSON object; those that are null are left out.

        Raises:
            ServingError: it is no object, has other members, or lacks one.
        """
        return checked_members(self.document, required, optional, "The body")


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A protocol on the REST port.

    Attributes:
        name: one of `names.PROTOCOLS`, or "vertex".
        routes: {(method, pattern of the whole path): function from an AdapterRequest to the text of the response, or a
            BinaryResponse}.
        write_error: write_error(HTTP status, message) -> (HTTP status, text of the response).
        ready_paths: paths whose GET says by its HTTP status whether all models are available.
        live_paths: paths whose GET says that the server runs.
    """

    name: str
    routes: Mapping[tuple[str, str], Callable[[AdapterRequest], "str | BinaryResponse"]]
    write_error: Callable[[int, str], tuple[int, str]] = lambda status, message: (status, json_responses.error(message))
    ready_paths: Sequence[str] = ()
    live_paths: Sequence[str] = ()

    def finds(self, path: str) -> bool:
        """Whether a path is one of this protocol's, whatever the method."""
        return any(re.fullmatch(pattern, path) for _, pattern in self.routes)

    def answer(self, method: str, request: AdapterRequest) -> str | BinaryResponse:
        """Returns the text of the response, or a BinaryResponse.

        Raises:
            ServingError: the request is rejected, because of its method or by the adapter.
        """
        for (allowed, pattern), answer in self.routes.items():
            match = re.fullmatch(pattern, request.path)
            if match and method == allowed:
                request.groups = match.groups()
                return answer(request)
        raise invalid(f"Malformed request: {method} {request.path}")


def checked_members(value: Any, required: Sequence[str], optional: Sequence[str], where: str) -> dict[str, Any]:
    """Returns the members of a JSON object without those that are null.

    Raises:
        ServingError: it is no object, repeats a member, has others than these, or lacks a required one.
    """
    if not isinstance(value, dict):
        raise invalid(f"{where} must be a JSON object; got {quoted(value)}")
    known = (*required, *optional)
    for name in value:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise invalid(f"{where} has the unsupported member {quoted(name)}; it may have {allowed}")
    if isinstance(value, json_requests.RepeatedKeys):
        raise invalid(f"{where} must not repeat a member")
    found = {name: member for name, member in value.items() if member is not None}
    for name in required:
        if name not in found:
            raise invalid(f"{where} must have the member '{name}'")
    return found


def member(members: Mapping[str, Any], name: str, wanted: type, default: Any = None) -> Any:
    """Returns a member of a JSON object if it has the wanted type, or the default if it is not there.

    Raises:
        ServingError: it has another type.
    """
    value = members.get(name, default)
    if name in members and (not isinstance(value, wanted) or isinstance(value, bool) is not (wanted is bool)):
        raise invalid(f"'{name}' must be {_NAMES[wanted]}; got {quoted(value)}")
    return value


def choice(members: Mapping[str, Any], name: str, allowed: Collection[Any], default: Any) -> Any:
    """Returns a member of a JSON object if it is one of the allowed values; raises ServingError if not."""
    value = members.get(name, default)
    if not any(value == each and type(value) is type(each) for each in allowed):
        raise invalid(f"'{name}' must be {' or '.join(map(quoted, allowed))}; got {quoted(value)}")
    return value


def texts(value: Any, name: str) -> list[str]:
    """Returns the strings of a member that is a string or a list of strings.

    Raises:
        ServingError: it is something else, or empty.
    """
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        raise invalid(f"'{name}' must be a string or a list of strings; got JSON {kind(value)}")
    if not values:
        raise invalid(f"'{name}' must not be empty")
    for i, each in enumerate(values):
        if not isinstance(each, str):
            raise invalid(f"'{name}' must be a string or a list of strings; got {quoted(each)} at index {i}")
    return values


def read_inputs(signature, columns: Mapping[str, Any], call: RequestContext) -> dict[str, np.ndarray]:
    """Returns {input alias: array} for JSON values by input, within the limits of a request; raises ServingError."""
    return json_requests.predict_inputs({"inputs": dict(columns)}, signature, call.limits)[0]
