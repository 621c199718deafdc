"""The gRPC face: PredictionService and ModelService over a catalog."""

import functools
import time
from concurrent import futures

import grpc
from absl import logging
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from bert_tf.serving.call import Call
from bert_tf.serving.classify import classify, regress
from bert_tf.serving.describe import model_metadata, model_status, require_spec
from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.predict import predict

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # as TensorFlow Serving: no limit of ours
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # else a second server would start on the same port and take half of the requests
)


def make_server(catalog, address: str, max_workers: int, limits: Limits) -> tuple[grpc.Server, int]:
    """Returns (server, port), bound to `address` ("host:port", port 0 for any free one) and not yet started.

    Raises:
        ValueError: the address cannot be had.
    """
    # A request waits here for its turn only when all threads are busy; TensorFlow's own threads do the computing.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers, "serving"), options=_OPTIONS)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_PredictionService(catalog, limits), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(_ModelService(catalog, limits), server)
    try:
        return server, server.add_insecure_port(address)
    except RuntimeError as error:
        raise ValueError(
            f"The gRPC port must be free and its address this machine's. Received {address}, which cannot be bound; "
            "choose another `port`, or 0 for any."
        ) from error


def _answering(method):
    """Wraps method(self, request, call), which may raise ServingError, for gRPC."""

    @functools.wraps(method)
    def answer(self, request, context):
        left = context.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        try:
            return method(self, request, Call(deadline, lambda: not context.is_active(), self._limits))
        except ServingError as error:
            failure = error
        except Exception as error:  # ours: the caller learns that it was not his fault, the log where it was
            logging.exception("%s failed", method.__name__)
            failure = ServingError(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        context.abort(failure.code, failure.short_message)

    return answer


class _PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, catalog, limits):
        self._catalog, self._limits = catalog, limits

    @_answering
    def Predict(self, request, call):
        return self._infer(predict, request, call)

    @_answering
    def Classify(self, request, call):
        return self._infer(classify, request, call)

    @_answering
    def Regress(self, request, call):
        return self._infer(regress, request, call)

    @_answering
    def GetModelMetadata(self, request, call):
        return model_metadata(self._catalog, request)

    def _infer(self, handler, request, call):
        require_spec(request)
        with self._catalog.lease(request.model_spec) as version:
            return handler(version, request, call)


class _ModelService(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, catalog, limits):
        self._catalog, self._limits = catalog, limits

    @_answering
    def GetModelStatus(self, request, call):
        return model_status(self._catalog, request)
