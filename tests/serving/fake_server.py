"""A gRPC server in this process that does to its callers what a test says, without a model."""

import threading
from concurrent import futures

import grpc
import numpy as np

from bert_tf.serving import messages, tensor_messages
from bert_tf.serving.client.requests import METHODS

_STRING, _FLOAT = 7, 1


class FakeServer:
    """Answers Predict with `embedding` [n, 2]: each text's length, and the number of requests so far.

    Attributes:
        script: functions (request, context), one used up by each Predict before it is answered, such as `failure`.
        requests: the Predicts that came, as messages.
        metadata: what their calls carried besides.
        most: how many were in progress at a time.
        shape: of the input `text`, as its signature says.
    """

    def __init__(self, credentials=None, workers=8, port=0):
        self.script, self.requests, self.metadata, self.most, self.shape = [], [], [], 0, [-1]
        self._lock, self._now = threading.Lock(), 0
        self._server = grpc.server(futures.ThreadPoolExecutor(workers), options=[("grpc.so_reuseport", 0)])
        for name, answer in (("Predict", self._predict), ("GetModelMetadata", self._describe)):
            path, request, response = METHODS[name]
            method = grpc.unary_unary_rpc_method_handler(answer, request.FromString, response.SerializeToString)
            handler = grpc.method_handlers_generic_handler(path.split("/")[1], {name: method})
            self._server.add_generic_rpc_handlers((handler,))
        address = f"localhost:{port}"
        self.port = (
            self._server.add_secure_port(address, credentials)
            if credentials
            else self._server.add_insecure_port(address)
        )
        self._server.start()

    def stop(self, grace=None):
        return self._server.stop(grace)

    def _predict(self, request, context):
        with self._lock:
            self.requests.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            self._now += 1
            self.most = max(self.most, self._now)
            act = self.script.pop(0) if self.script else None
            number = len(self.requests)
        try:
            if act:
                act(request, context)
        finally:
            with self._lock:
                self._now -= 1
        texts = tensor_messages.wire_to_array(request.inputs[0].value)
        response = messages.PredictResponse()
        rows = np.array([[len(text), number] for text in texts], np.float32)
        tensor_messages.fill_tensor(response.outputs.add(key="embedding").value, rows, "embedding")
        return response

    def _describe(self, request, context):
        found = messages.Signatures()
        signature = found.signature_def.add(key="serving_default").value
        for items, name, dtype, shape in ((signature.inputs, "text", _STRING, self.shape),
                                          (signature.outputs, "embedding", _FLOAT, [-1, 2])):  # fmt: skip
            info = items.add(key=name).value
            info.dtype = dtype
            for size in shape:
                info.tensor_shape.dim.add(size=size)
        response = messages.MetadataResponse()
        response.metadata.add(key="signature_def").value.value = found.SerializeToString()
        return response


def failure(code, details="because", pushback=None):
    """Returns what makes a call fail; `pushback`: milliseconds to wait that the server asks for."""

    def act(request, context):
        if pushback is not None:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", str(pushback)),))
        context.abort(code, details)

    return act
