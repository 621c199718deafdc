"""Whether the server is alive and every model can be asked: for probes over gRPC and HTTP."""

import json
import threading
from collections.abc import Sequence

from absl import logging
from grpc_health.v1 import health, health_pb2

_SECONDS = 1.0  # between two looks for those who watch
_Status = health_pb2.HealthCheckResponse


def ready(catalog) -> dict[str, bool]:
    """Returns {name of a model: whether a version of it is available}."""
    return {
        name: any(state.name == "AVAILABLE" for state in catalog.states(name).values()) for name in catalog.names()
    }


def readiness(catalog) -> tuple[bool, bytes]:
    """Returns (whether there are models and each can be asked, JSON that says which)."""
    models = ready(catalog)
    good = _all_ready(models)
    return good, json.dumps({"ready": good, "models": models}).encode()


class Health(health.HealthServicer):
    """grpc.health.v1 for the server as a whole (""), its services, also by their short names, and each model by name.

    Attributes:
        service: the full name of this service itself.
    """

    service = health.SERVICE_NAME

    def __init__(self, catalog, services: Sequence[str]):
        super().__init__(experimental_non_blocking=True)  # else each watcher would hold a thread
        self._catalog = catalog
        self._services = ["", *services, *(name.rpartition(".")[2] for name in services)]
        self._models = set()
        self._end = threading.Event()

    def start(self):
        self._refresh()
        threading.Thread(target=self._watch, name="health", daemon=True).start()

    def stop(self):
        """Says NOT_SERVING from here on."""
        self._end.set()
        self.enter_graceful_shutdown()

    def Check(self, request, context):
        self._refresh()
        return super().Check(request, context)

    def _watch(self):
        while not self._end.wait(_SECONDS):
            try:
                self._refresh()
            except Exception:  # those who watch another model must hear of it all the same
                logging.log_every_n_seconds(logging.ERROR, "Telling the health of models failed.", 600, exc_info=True)

    def _refresh(self):
        models = ready(self._catalog)
        for name in self._services:
            self.set(name, _status(_all_ready(models)))
        for name in models.keys() | self._models:
            self.set(name, _status(models[name]) if name in models else _Status.SERVICE_UNKNOWN)
        self._models = set(models)


def _all_ready(models):
    return bool(models) and all(models.values())  # a server without any model answers nobody


def _status(good):
    return _Status.SERVING if good else _Status.NOT_SERVING
