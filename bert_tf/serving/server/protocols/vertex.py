"""Vertex AI's contract of containers: the environment variables that state port, paths and files of the model."""

import dataclasses
import os
import re
from collections.abc import Collection, Mapping

from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol
from bert_tf.serving.server.protocols.predictions import predict_rows

PORT, HEALTH, PREDICT, STORAGE = "AIP_HTTP_PORT", "AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE", "AIP_STORAGE_URI"
_MOST_PORT = 65535
_TENSORFLOW_SERVINGS = re.compile("/v1/models(?:[/:].*)?", re.I)


@dataclasses.dataclass(frozen=True)
class VertexSettings:
    """What Vertex AI states in the environment of a container; None for what it does not state.

    Attributes:
        port: the REST port.
        health_route: path of the health check.
        predict_route: path of predictions.
        storage_uri: where the model is.
    """

    port: int | None = None
    health_route: str | None = None
    predict_route: str | None = None
    storage_uri: str | None = None

    def protocol(self) -> Protocol:
        """Returns the protocol of these paths, except for those of TensorFlow Serving, which stay its own."""
        routes = {("POST", re.escape(path)): _predict for path in _new(self.predict_route)}
        return Protocol("vertex", routes, ready_paths=_new(self.health_route))


    def check_pages(self, paths: Collection[str]):
        """Raises ValueError if the health check has the path of another page, one of `paths`."""
        if self.health_route in paths:
            raise ValueError(
                f"{HEALTH} must differ from the paths of the metrics and of the page for trying the models; got "
                f"{self.health_route}. Choose another path, or turn that page off."
            )


def read_environment(environment: Mapping[str, str] = os.environ) -> VertexSettings:
    """Returns what the variables state; empty ones state nothing.

    Raises:
        ValueError: one of them cannot be followed.
    """
    stated = {name: environment.get(name) or None for name in (PORT, HEALTH, PREDICT, STORAGE)}
    port = stated[PORT]
    if port is not None and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= _MOST_PORT):
        raise ValueError(f"{PORT} must be a port from 1 to {_MOST_PORT}; got {port}. Correct it or unset it.")
    for name in (HEALTH, PREDICT):
        if stated[name] is not None and not stated[name].startswith("/"):
            raise ValueError(f"{name} must be a path that starts with /; got {stated[name]}. Correct it or unset it.")
    return VertexSettings(None if port is None else int(port), stated[HEALTH], stated[PREDICT], stated[STORAGE])


def _new(path):
    return [path] if path and not _TENSORFLOW_SERVINGS.fullmatch(path) else []


def _predict(request: AdapterRequest) -> str:
    """Returns `predictions` for `instances`. Vertex AI's `parameters` are refused, because no model here has any."""
    return predict_rows(request, request.members(("instances",)))
