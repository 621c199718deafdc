"""gRPC's health checks and reflection, whose streams end when the server stops: they are not requests to wait for."""

import threading
from collections.abc import Iterator, Sequence

import grpc
from absl import logging
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

from bert_tf.serving.server.model_status import is_ready, ready

_HEALTH_SECONDS = 1.0  # between two checks for watchers


_Health = health_pb2.HealthCheckResponse
_HEALTH_STATUS = {True: _Health.SERVING, False: _Health.NOT_SERVING, None: _Health.SERVICE_UNKNOWN}


class Health(health.HealthServicer):
    """grpc.health.v1 for the server as a whole (""), its services, with short names too, and each model by name.

    Attributes:
        service: the full name of this service itself.
    """

    service = health.SERVICE_NAME

    def __init__(self, registry, services: Sequence[str]):
        super().__init__(experimental_non_blocking=True)  # otherwise, each watcher would hold a thread
        self._registry = registry
        self._services = ["", *services, *(name.rpartition(".")[2] for name in services)]
        self._models = set()
        self._watchers: set[_Watcher] = set()
        self._end = threading.Event()

    def start(self):
        self._refresh()
        threading.Thread(target=self._watch, name="health", daemon=True).start()

    def stop(self):
        """Reports NOT_SERVING from now on, and ends the streams of watchers with it."""
        self._end.set()
        self.enter_graceful_shutdown()
        for watcher in list(self._watchers):
            watcher(None)

    def Check(self, request, context):
        self._refresh()
        return super().Check(request, context)

    def Watch(self, request, context, send_response_callback):
        watcher = _Watcher(send_response_callback)
        self._watchers.add(watcher)
        context.add_callback(lambda: self._watchers.discard(watcher))
        super().Watch(request, context, watcher)
        if self._end.is_set():  # it came while the server was stopping, which may not have reported it yet
            self.enter_graceful_shutdown()
            watcher(None)

    def _watch(self):
        while not self._end.wait(_HEALTH_SECONDS):
            try:
                self._refresh()
            except Exception:  # watchers of other models must still be notified
                logging.log_every_n_seconds(logging.ERROR, "Reporting the health of models failed.", 600, exc_info=True)

    def _refresh(self):
        models = ready(self._registry)
        for name in self._services:
            self.set(name, _HEALTH_STATUS[is_ready(models)])
        for name in models.keys() | self._models:
            self.set(name, _HEALTH_STATUS[models.get(name)])
        self._models = set(models)


class _Watcher:
    """Sends responses to a stream up to None, which ends it; gRPC fails if a stream is ended twice."""

    def __init__(self, send):
        self._send, self._is_open, self._lock = send, True, threading.Lock()

    def __call__(self, response: health_pb2.HealthCheckResponse | None):
        with self._lock:
            if self._is_open:
                self._is_open = response is not None
                self._send(response)


class Reflection(reflection.ReflectionServicer):
    """grpc.reflection.v1alpha, for tools such as grpcurl.

    Attributes:
        service: the full name of this service itself.
    """

    service = reflection.SERVICE_NAME

    def __init__(self, services: Sequence[str]):
        super().__init__(services)
        self._streams: set[grpc.ServicerContext] = set()
        self._end = threading.Event()

    def stop(self):
        """Cancels the streams, which last as long as the client wants."""
        self._end.set()
        for context in list(self._streams):
            context.cancel()

    def ServerReflectionInfo(self, request_iterator, context) -> Iterator:
        self._streams.add(context)
        context.add_callback(lambda: self._streams.discard(context))
        if self._end.is_set():  # it came while the server was stopping
            context.cancel()
        return super().ServerReflectionInfo(request_iterator, context)
