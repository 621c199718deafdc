"""The gRPC server: the services of predictions and of models, and health checks, over a registry of models.

Requests arrive as bytes and are parsed by this module, so that a broken one is the caller's error without a traceback
in the log.
"""

import contextlib
import importlib
import threading
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
from absl import logging
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from bert_tf.serving import addresses, wire_scan
from bert_tf.serving.errors import GRPC_BYTES, ServingError, from_fault, invalid, unavailable
from bert_tf.serving.server import metrics, profiling
from bert_tf.serving.server.classify import classify, regress
from bert_tf.serving.server.config_reload import reload
from bert_tf.serving.server.grpc_channel import UnixSocket, bind_port, channel_options
from bert_tf.serving.server.grpc_method import Method, model_spec
from bert_tf.serving.server.model_status import model_metadata, model_status, require_spec
from bert_tf.serving.server.multi_inference import multi_inference
from bert_tf.serving.server.options import ServerOptions
from bert_tf.serving.server.predict import predict
from bert_tf.serving.server.protocols import kserve_grpc
from bert_tf.serving.server.protocols.kserve_v2 import KSERVE_V2
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.side_services import Health, Reflection
from bert_tf.serving.server.tensorflow_messages import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)


def _full_name(module: str, service: str) -> str:
    """Registers the description of a service, as reflection requires, and returns its full name."""
    # Before 2.21, these modules of tensorflow-serving-api then fail, in code that newer versions of protobuf reject.
    with contextlib.suppress(AttributeError):
        importlib.import_module(f"tensorflow_serving.apis.{module}")
    return descriptor_pool.Default().FindServiceByName(f"tensorflow.serving.{service}").full_name


PREDICTION = _full_name("prediction_service_pb2", "PredictionService")
MODEL = _full_name("model_service_pb2", "ModelService")
_OPEN_CALLS = 2048  # whose requests are incomplete, or being processed
_PATIENCE = 30  # seconds in which the request of an open call must arrive
_LAST_SECONDS = 2  # the same once the server stops
_LARGE_MESSAGES = 4  # of the largest size in memory at once, or as many small ones as fit


def _inference(handler):
    """Wraps handler(version, request, call) as answer(registry, request, call)."""

    def answer(registry, request, call):
        if not isinstance(request, inference_pb2.MultiInferenceRequest):
            require_spec(request)
        with registry.lease(model_spec(request)) as version:
            return handler(version, request, call)

    return answer


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

_PROFILER = {
    profiling.SERVICE: {
        "Profile": Method(profiling.ProfileRequest, lambda registry, request, call: profiling.profile(request, call))
    }
}


def _services(options):
    """Returns {service: {name: Method}} of all services that the server has."""
    found = METHODS | (_PROFILER if options.enable_profiler else {})
    return found | (kserve_grpc.METHODS if KSERVE_V2.name in options.rest_api_protocols else {})


def _read(data, kind, limits):
    """Returns a message; raises ServingError if it is malformed, or has too many parts."""
    wire_scan.check_message(data, kind.DESCRIPTOR, limits.max_message_fields, limits.max_message_numbers)
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise invalid(f"The message is not a valid {kind.DESCRIPTOR.name}") from error


class GrpcServer:
    """The gRPC server for every method of `_services`.

    Attributes:
        port: its port; None if there is only a Unix socket.
    """

    def __init__(self, registry, options: ServerOptions):
        """Binds the port; no request is processed before `start`.

        Raises:
            ValueError: an address cannot be bound.
        """
        self._registry, self._options = registry, options
        self._answering = {}  # calls whose request has arrived: arrival time
        self._silent = {}  # calls whose request has not arrived yet: start time
        self._held, self._holding = 0, threading.Lock()  # bytes of requests in progress
        self._stopping = threading.Event()
        # Calls whose request is still arriving hold a thread too, so gRPC's own pool must exceed the number of callers.
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_OPEN_CALLS, "grpc"),
            options=channel_options(options.limits, options.grpc_channel_arguments),
            maximum_concurrent_rpcs=_OPEN_CALLS,
        )
        services = _services(options)
        for service, methods in services.items():
            handlers = {name: self._handler(name, method) for name, method in methods.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._health = Health(registry, list(services)) if options.health else None
        if self._health:
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        offered = [*METHODS, Reflection.service, *([Health.service] if self._health else [])]
        self._reflection = Reflection(offered) if options.reflection else None
        if self._reflection:
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self._reflection, self._server)
        self.port = None
        if options.port is not None:
            self.port = bind_port(self._server, addresses.join_address(options.host, options.port), options.tls)
        path = options.grpc_socket_path
        self._socket = None if path is None else UnixSocket(self._server, path, options.tls)

    @property
    def running(self) -> int:
        """The number of requests in progress."""
        return len(self._answering)

    def start(self):
        self._server.start()
        if self._socket:
            self._socket.take()
        threading.Thread(target=self._hang_up, name="silent calls", daemon=True).start()
        if self._health:
            self._health.start()

    def stop(self, grace: float) -> threading.Event:
        """Accepts no more calls; returns an event that is set when running ones end, after at most `grace` seconds."""
        self._stopping.set()
        for service in (self._health, self._reflection):
            if service:
                service.stop()
        ended = self._server.stop(grace)
        if self._socket:
            self._socket.remove()
        return ended

    def _handler(self, name, method):
        # As a stream of one request, the call is accessible before its request arrives, so one without a request can be
        # ended.
        def answer(requests, context):
            data = self._receive(requests, context)
            size = len(data)
            until_sent = contextlib.ExitStack()
            context.add_callback(until_sent.close)
            try:
                with metrics.rejections(name) if method.counts else contextlib.nullcontext():
                    self._hold(size)
                    self._check_threads(method)
                self._answering[context] = time.monotonic()
                try:
                    return self._answer(name, method, data, context, until_sent)
                finally:
                    del self._answering[context]
                    if not context.is_active():  # the callback that closes it may have come too early
                        until_sent.close()
            # Errors are not stored: they hold this frame, which would keep them and a rejected response alive.
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
        """Counts the bytes of a new request, or with a negative size, those of a finished one.

        Raises:
            ServingError: the total in memory is too large; this request is still counted.
        """
        with self._holding:
            self._held += size
            too_many = size > 0 and self._held > _LARGE_MESSAGES * self._options.limits.max_message_bytes
        if too_many:
            times = f"{_LARGE_MESSAGES} times `max_message_bytes`"
            raise unavailable(f"The server is at its limit of message memory ({times}); try again later")

    def _check_threads(self, method):
        """Raises ServingError at the limit of concurrent predictions; status and config requests are still accepted."""
        most = self._options.grpc_max_threads
        if method.counts and len(self._answering) >= most:
            raise unavailable(
                f"The server is at its limit of {most} concurrent requests (`grpc_max_threads`); try again later"
            )

    def _answer(self, name, method, data, context, until_sent):
        left = context.time_remaining()
        if left is not None and left > threading.TIMEOUT_MAX:  # which is how gRPC encodes no deadline
            left = None
        deadline = None if left is None else time.monotonic() + left
        content = self._options.enable_serialization_as_tensor_content
        peer = "" if method.counts else context.peer()
        call = RequestContext(
            deadline, lambda: not context.is_active(), self._options.limits, tensor_content=content, peer=peer,
            until_sent=until_sent,
        )  # fmt: skip
        call.check()
        with call.work.begun(call, len(data)):
            call.check()  # callers may have left while waiting for their turn
            with metrics.rejections(name) if method.counts else contextlib.nullcontext():
                request = _read(data, method.request, call.limits)
            del data
            if not method.counts:
                return method.answer(self._registry, request, call).SerializeToString()
            with metrics.request(self._registry, method.spec(request), name, call.entrypoint):
                return method.answer(self._registry, request, call).SerializeToString()

    def _hang_up(self):
        """Ends calls that were opened long ago without a request: each holds a thread, or a stopping server."""
        while not self._stopping.wait(1):
            self._end_silent_calls(time.monotonic() - _PATIENCE)
        time.sleep(_LAST_SECONDS)
        self._end_silent_calls(time.monotonic())

    def _end_silent_calls(self, late):
        for context, began in list(self._silent.items()):
            if began < late:
                logging.log_every_n_seconds(logging.WARNING, "Ended calls without a request.", 10)
                context.cancel()
