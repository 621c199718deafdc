"""The gRPC server: PredictionService, ModelService and health checks over a registry of models.

Requests come as bytes and are parsed here, so that a broken one is the caller's error and no traceback in the log.
"""

import contextlib
import dataclasses
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

import grpc
from absl import logging
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2,
    predict_pb2,
    prediction_service_pb2,
    regression_pb2,
)

from bert_tf.serving import addresses, messages
from bert_tf.serving.limits import GRPC_BYTES, Limits, ServingError, from_fault, invalid, unavailable
from bert_tf.serving.server import metrics
from bert_tf.serving.server.classify import classify, multi_inference, regress
from bert_tf.serving.server.model_registry import is_ready, model_metadata, model_status, ready, reload, require_spec
from bert_tf.serving.server.options import ServerOptions
from bert_tf.serving.server.predict import Call, predict

# === Channel arguments ===
# Settings of a gRPC server's channel, and the addresses at which it listens.


_INT32 = range(-(2**31), 2**31)
_LONGEST = 107  # bytes of the path of a Unix socket


def read_arguments(text: str) -> dict[str, int | str]:
    """Returns {key: value} of "key=value" with commas between; a value that is a number of 32 bits becomes one.

    Raises:
        ValueError: a part is no key with a value.
    """
    arguments: dict[str, int | str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.strip() or not equals or "=" in value:
            raise ValueError(
                f"`grpc_channel_arguments` must be key=value with commas between. Received {part!r} in {text!r}; "
                "grpc.max_connection_age_ms=2000 is one."
            )
        arguments[key.strip()] = value.strip()
        with contextlib.suppress(ValueError):
            if int(value) in _INT32:
                arguments[key.strip()] = int(value)
    return arguments


def channel_options(limits: Limits, arguments: dict[str, int | str]) -> list[tuple[str, int | str]]:
    """Returns the options of a server's channel; `arguments` take the place of ours."""
    options = {
        "grpc.max_receive_message_length": limits.max_message_bytes,
        "grpc.max_send_message_length": -1,
        "grpc.so_reuseport": 0,  # else a second server would start on the same port and take half of the requests
        "grpc.keepalive_time_ms": 60_000,  # callers whose machine has vanished are found out
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return list((options | arguments).items())


def bind_port(server, address: str, tls) -> int:
    """Has `server` listen on "host:port" and returns the port.

    Raises:
        ValueError: the address cannot be had.
    """
    try:
        return _bind(server, address, tls)
    except RuntimeError as error:
        raise ValueError(
            f"The gRPC port must be free and its address this machine's. Received {address}, which cannot be bound; "
            "choose another `port`, or 0 for any."
        ) from error


class UnixSocket:
    """A path in the file system at which a server listens.

    The socket is made next to the path and moved there: so a server that is started while another still listens takes
    its path over in one instant, once it can answer, and the other, when it stops, does not remove what is not its own
    any more.
    """

    def __init__(self, server, path: str, tls):
        """Has `server` listen on a socket; nobody finds it before `take`.

        Raises:
            ValueError: no socket can be made at `path`, or something else is there.
        """
        # Short, as that has a bound too; drawn, as servers in two containers may have the same process id.
        self._path, self._aside = path, os.path.join(os.path.dirname(path), f".{secrets.token_hex(3)}")
        if len(os.fsencode(path)) > _LONGEST:  # it could be moved there, and nobody could connect
            raise _unfit(path, "which is longer")
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise _unfit(path, "which is not a socket")
        try:
            _bind(server, f"unix:{self._aside}", tls)
        except RuntimeError as error:
            raise _unfit(path, "where none can be made") from error
        self._inode = os.stat(self._aside).st_ino

    def take(self):
        """Moves the socket to its path, from where callers reach it."""
        if _answers(self._path):
            logging.warning("Took %s from a server that listens there; it gets no new connections.", self._path)
        os.replace(self._aside, self._path)

    def remove(self):
        """Removes the path where it still leads to this server."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)


def _bind(server, address, tls):
    if tls:
        return server.add_secure_port(address, tls.grpc_credentials())
    return server.add_insecure_port(address)


def _unfit(path, why):
    return ValueError(
        f"`grpc_socket_path` must be a path of at most {_LONGEST} bytes, in a folder that can be written, with no file "
        f"there. Received {path}, {why}; choose another path."
    )


def _answers(path):
    """Whether a server listens at a path."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            probe.connect(path)
    except OSError:
        return False
    return True


# === Health ===
# Probes over gRPC: is the server alive, can every model be asked?


_HEALTH_SECONDS = 1.0  # between two looks for those who watch


_Health = health_pb2.HealthCheckResponse
_HEALTH_STATUS = {True: _Health.SERVING, False: _Health.NOT_SERVING, None: _Health.SERVICE_UNKNOWN}


class Health(health.HealthServicer):
    """grpc.health.v1 for the server as a whole (""), its services, also by their short names, and each model by name.

    Attributes:
        service: the full name of this service itself.
    """

    service = health.SERVICE_NAME

    def __init__(self, registry, services: Sequence[str]):
        super().__init__(experimental_non_blocking=True)  # else each watcher would hold a thread
        self._registry = registry
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
        while not self._end.wait(_HEALTH_SECONDS):
            try:
                self._refresh()
            except Exception:  # those who watch another model must hear of it all the same
                logging.log_every_n_seconds(logging.ERROR, "Telling the health of models failed.", 600, exc_info=True)

    def _refresh(self):
        models = ready(self._registry)
        for name in self._services:
            self.set(name, _HEALTH_STATUS[is_ready(models)])
        for name in models.keys() | self._models:
            self.set(name, _HEALTH_STATUS[models.get(name)])
        self._models = set(models)


# === gRPC service ===


PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
MODEL = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
_OPEN_CALLS = 2048  # whose requests have not come whole, or have come and are answered
_PATIENCE = 30  # seconds in which the request of an open call must have come
_LARGE_MESSAGES = 4  # of the largest size, that are in memory at once, as many small ones as it takes


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of a service.

    Attributes:
        request: its type.
        answer: answer(registry, request, call) -> response; raises ServingError.
        counts: whether it is in the metrics, by the name of its model.
    """

    request: type[Message]
    answer: Callable
    counts: bool = False


def _inference(handler):
    """Returns answer(registry, request, call) of handler(version, request, call)."""

    def answer(registry, request, call):
        if not isinstance(request, inference_pb2.MultiInferenceRequest):
            require_spec(request)
        with registry.lease(_model_spec(request)) as version:
            return handler(version, request, call)

    return answer


def _model_spec(request):
    """Returns the ModelSpec that says which model is asked: of MultiInference the first task's, or an empty one."""
    if not isinstance(request, inference_pb2.MultiInferenceRequest):
        return request.model_spec
    return request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()


METHODS = {
    PREDICTION: {
        "Predict": Method(predict_pb2.PredictRequest, _inference(predict), counts=True),
        "Classify": Method(classification_pb2.ClassificationRequest, _inference(classify), counts=True),
        "Regress": Method(regression_pb2.RegressionRequest, _inference(regress), counts=True),
        "MultiInference": Method(inference_pb2.MultiInferenceRequest, _inference(multi_inference), counts=True),
        "GetModelMetadata": Method(
            get_model_metadata_pb2.GetModelMetadataRequest,
            lambda registry, request, call: model_metadata(registry, request),
        ),
    },
    MODEL: {
        "GetModelStatus": Method(
            get_model_status_pb2.GetModelStatusRequest, lambda registry, request, call: model_status(registry, request)
        ),
        "HandleReloadConfigRequest": Method(model_management_pb2.ReloadConfigRequest, reload),
    },
}


class GrpcServer:
    """Answers every method of METHODS.

    Attributes:
        port: where it listens; None: on a Unix socket alone.
    """

    def __init__(self, registry, options: ServerOptions):
        """Takes its port; nobody is answered before `start`.

        Raises:
            ValueError: an address cannot be had.
        """
        self._registry, self._options = registry, options
        self._answering = {}  # calls whose request has come: when it did
        self._silent = {}  # calls whose request has not come yet: when they began
        self._held, self._holding = 0, threading.Lock()  # bytes of requests that have come and are not answered
        self._stopping = threading.Event()
        # Calls whose request is on its way hold a thread too: gRPC's own pool must be larger than the callers are many.
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_OPEN_CALLS, "grpc"),
            options=channel_options(options.limits, options.grpc_channel_arguments),
            maximum_concurrent_rpcs=_OPEN_CALLS,
        )
        for service, methods in METHODS.items():
            handlers = {name: self._handler(name, method) for name, method in methods.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._health = Health(registry, list(METHODS)) if options.health else None
        if self._health:
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if options.reflection:
            offered = [*METHODS, reflection.SERVICE_NAME, *([self._health.service] if self._health else [])]
            reflection.enable_server_reflection(offered, self._server)
        self.port = None
        if options.port is not None:
            self.port = bind_port(self._server, addresses.join_address(options.host, options.port), options.tls)
        path = options.grpc_socket_path
        self._socket = None if path is None else UnixSocket(self._server, path, options.tls)

    @property
    def running(self) -> int:
        """Number of requests that are being answered."""
        return len(self._answering)

    def start(self):
        self._server.start()
        if self._socket:
            self._socket.take()
        threading.Thread(target=self._hang_up, name="silent calls", daemon=True).start()
        if self._health:
            self._health.start()

    def stop(self, grace: float) -> threading.Event:
        """Takes no more calls; returns what is set when those that run have ended, after `grace` seconds at most."""
        self._stopping.set()
        if self._health:
            self._health.stop()
        ended = self._server.stop(grace)
        if self._socket:
            self._socket.remove()
        return ended

    def _handler(self, name, method):
        # As a stream of one request, the call is ours before its request is there: one that never comes can be ended.
        def answer(requests, context):
            data = self._receive(requests, context)
            size = len(data)
            until_sent = contextlib.ExitStack()
            context.add_callback(until_sent.close)
            try:
                self._hold(size)
                # A status is given, and a config taken, also while as much is computed as may be.
                if method.counts and len(self._answering) >= self._options.grpc_max_threads:
                    raise unavailable("The server answers as many requests as it can; try again later")
                self._answering[context] = time.monotonic()
                try:
                    return self._answer(name, method, data, context, until_sent)
                finally:
                    del self._answering[context]
                    if not context.is_active():  # what was to close it may have come too early
                        until_sent.close()
            # No error is kept: it holds this frame, which would hold it, and an answer that was refused, for long.
            except ServingError as error:
                code, message = error.code, error.cut_message(GRPC_BYTES)
            except Exception as error:
                failure = from_fault(error, name)
                code, message = failure.code, failure.cut_message(GRPC_BYTES)
            finally:
                self._hold(-size)
            context.abort(code, message)

        return grpc.stream_unary_rpc_method_handler(answer)

    def _receive(self, requests: Iterator[bytes], context):
        self._silent[context] = time.monotonic()
        try:
            return next(requests, b"")
        finally:
            del self._silent[context]

    def _hold(self, size):
        """Counts a request that has come, or with a negative size one that is answered.

        Raises:
            ServingError: all in memory are too large together; this one counts nevertheless.
        """
        with self._holding:
            self._held += size
            too_many = size > 0 and self._held > _LARGE_MESSAGES * self._options.limits.max_message_bytes
        if too_many:
            raise unavailable("The server holds as many messages as it may; try again later")

    def _answer(self, name, method, data, context, until_sent):
        left = context.time_remaining()
        if left is not None and left > threading.TIMEOUT_MAX:  # as gRPC says that there is no deadline
            left = None
        deadline = None if left is None else time.monotonic() + left
        content = self._options.enable_serialization_as_tensor_content
        peer = "" if method.counts else context.peer()
        call = Call(
            deadline, lambda: not context.is_active(), self._options.limits, tensor_content=content, peer=peer,
            until_sent=until_sent,
        )  # fmt: skip
        call.check()
        with call.work.begun(call, len(data)):
            call.check()  # who had to wait for the turn may have left
            limits = call.limits
            messages.check_message(
                data, method.request.DESCRIPTOR, limits.max_message_fields, limits.max_message_numbers
            )
            try:
                request = method.request.FromString(data)
            except DecodeError as error:
                raise invalid(f"The message is not a valid {method.request.DESCRIPTOR.name}") from error
            del data
            if not method.counts:
                return method.answer(self._registry, request, call).SerializeToString()
            with metrics.request(self._registry, _model_spec(request).name, name, call.entrypoint):
                return method.answer(self._registry, request, call).SerializeToString()

    def _hang_up(self):
        """Ends calls that were opened long ago and have sent no request: each holds a thread."""
        while not self._stopping.wait(1):
            late = time.monotonic() - _PATIENCE
            for context, began in list(self._silent.items()):
                if began < late:
                    logging.log_every_n_seconds(logging.WARNING, "Ended calls without a request.", 10)
                    context.cancel()
