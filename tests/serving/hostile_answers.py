"""Servers that answer whatever a test says, to clients which must take no harm from it."""

import http.server
import threading
from concurrent import futures

import grpc

from bert_tf.serving import messages, tensor_messages
from bert_tf.serving.client.requests import METHODS

PREDICT, METADATA, STATUS = (METHODS[name][0] for name in ("Predict", "GetModelMetadata", "GetModelStatus"))
CLASSIFY, REGRESS = (f"/tensorflow.serving.PredictionService/{name}" for name in ("Classify", "Regress"))
STRING, FLOAT = 7, 1


class HostileServer:
    """Answers any call with bytes; a context manager.

    Args:
        answers: {path: bytes, or what makes them of the request and its context}.
        compression: of the answers.
    """

    def __init__(self, answers, compression=None):
        self.answers = {METADATA: signatures_of({"text": STRING})} | answers
        self._server = grpc.server(futures.ThreadPoolExecutor(4), compression=compression)
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port("localhost:0")
        self._server.start()

    def service(self, call):
        """Returns gRPC's handler of a call."""
        found = self.answers.get(call.method, b"")
        return grpc.unary_unary_rpc_method_handler(found if callable(found) else lambda request, context: found)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.stop(0).wait()


def outputs_of(**tensors) -> bytes:
    """Returns a PredictResponse of arrays, or of functions that fill a tensor message."""
    response = messages.PredictResponse()
    for name, given in tensors.items():
        tensor = response.outputs.add(key=name).value
        given(tensor) if callable(given) else tensor_messages.fill_tensor(tensor, given, name)
    return response.SerializeToString()


def claim(dtype, shape, **fields):
    """Returns what fills a tensor message as given, whether that makes sense or not."""

    def fill(tensor):
        tensor.dtype = dtype
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        for name, values in fields.items():
            if name == "tensor_content":
                tensor.tensor_content = values
            else:
                getattr(tensor, name).extend(values)

    return fill


def signatures_of(inputs, outputs=None) -> bytes:
    """Returns a GetModelMetadataResponse of one signature, {name: number in DataType} each."""
    found = messages.Signatures()
    signature = found.signature_def.add(key="serving_default").value
    for items, kinds in ((signature.inputs, inputs), (signature.outputs, outputs or {})):
        for name, dtype in kinds.items():
            info = items.add(key=name).value
            info.dtype = dtype
            info.tensor_shape.dim.add(size=-1)
    response = messages.MetadataResponse()
    response.metadata.add(key="signature_def").value.value = found.SerializeToString()
    return response.SerializeToString()


def classes_of(*counts) -> bytes:
    """Returns a ClassificationResponse whose examples have so many classes."""
    from tensorflow_serving.apis import classification_pb2

    response = classification_pb2.ClassificationResponse()
    for count in counts:
        classes = response.result.classifications.add().classes
        for _ in range(count):
            classes.add(label="a", score=1.0)
    return response.SerializeToString()


class HostileRest:
    """An HTTP server whose answers `answer(handler)` writes; a context manager."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    answer(self)
                except OSError:  # the client has left
                    self.close_connection = True

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *arguments):
                """Says nothing."""

        self._server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()


def body(data, status=200, **headers):
    """Returns what answers with bytes."""

    def answer(handler):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer
