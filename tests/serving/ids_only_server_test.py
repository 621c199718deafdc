"""The client and a server of TensorFlow Serving's gRPC that has no strings, as OpenVINO Model Server serves an export.

The stub speaks by TensorFlow Serving's own messages, not ours. Like that server, it reads numbers from `tensor_content`
alone, answers with `tensor_content`, knows no signatures and no labels, and takes any number of rows and tokens.
"""

from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc

from bert_tf.serving.client.client import Client

INPUTS = ("input_ids", "input_mask", "segment_ids")
_DTYPES = {types_pb2.DT_INT32: np.int32, types_pb2.DT_FLOAT: np.float32}


class IdsOnlyService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers `probabilities` [n, 2]: the sum of the ids under the mask, and the number of tokens."""

    def Predict(self, request, context):
        arrays = {name: self._array(name, tensor, context) for name, tensor in request.inputs.items()}
        if set(arrays) != set(INPUTS) or len({array.shape for array in arrays.values()}) > 1:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"Invalid number of inputs: {sorted(arrays)}")
        mask = arrays["input_mask"]
        rows = np.stack([(arrays["input_ids"] * mask).sum(-1), mask.sum(-1)], -1).astype(np.float32)
        response = predict_pb2.PredictResponse()
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_content=rows.tobytes())
        tensor.tensor_shape.CopyFrom(tf.TensorShape(rows.shape).as_proto())
        response.outputs["probabilities"].CopyFrom(tensor)
        return response

    def _array(self, name, tensor, context):
        dtype = _DTYPES.get(tensor.dtype)
        shape = [each.size for each in tensor.tensor_shape.dim]
        if dtype is None or len(tensor.tensor_content) != 4 * np.prod(shape):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"Invalid content size - Input name: {name}")
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)

    def GetModelMetadata(self, request, context):
        signatures = get_model_metadata_pb2.SignatureDefMap()
        signature = signatures.signature_def["serving_default"]
        for name in INPUTS:
            signature.inputs[name].dtype = types_pb2.DT_INT32
            signature.inputs[name].tensor_shape.CopyFrom(tf.TensorShape([None, None]).as_proto())
        signature.outputs["probabilities"].dtype = types_pb2.DT_FLOAT
        signature.outputs["probabilities"].tensor_shape.CopyFrom(tf.TensorShape([None, 2]).as_proto())
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response


@pytest.fixture(scope="module")
def client():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(IdsOnlyService(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    with Client(f"localhost:{port}", "reviews") as client:
        yield client
    server.stop(None)


@pytest.mark.parametrize("make", [list, lambda rows: np.array(rows, np.int32)], ids=["lists", "arrays"])
def test_ids_are_predicted(client, make):
    rows = {"input_ids": [[2, 7, 3], [2, 3, 0]], "input_mask": [[1, 1, 1], [1, 1, 0]], "segment_ids": [[0] * 3] * 2}
    answer = client.predict({name: make(values) for name, values in rows.items()})
    assert answer["probabilities"].dtype == np.float32
    assert answer["probabilities"].tolist() == [[12, 3], [5, 2]]


def test_equal_numbers_are_sent_in_full(client):
    """A sender may shorten repetitions in a message, which that server does not read."""
    ones = np.ones([4, 128], np.int32)
    answer = client.predict({"input_ids": ones, "input_mask": ones, "segment_ids": 0 * ones})
    assert answer["probabilities"].tolist() == [[128, 128]] * 4


def test_the_signature_has_no_strings(client):
    signature = client.signatures()["serving_default"]
    assert {name: (kind.dtype, kind.shape) for name, kind in signature.inputs.items()} == {
        name: ("int32", (None, None)) for name in INPUTS
    }
    assert {name: (kind.dtype, kind.shape) for name, kind in signature.outputs.items()} == {
        "probabilities": ("float32", (None, 2))
    }


def test_what_it_does_not_take_is_said(client):
    ids = [[2, 7, 3]]
    with pytest.raises(ValueError, match="requires the inputs input_ids, input_mask, segment_ids; got input_ids"):
        client.predict({"input_ids": ids})
    with pytest.raises(ValueError, match="'segment_ids' must be int32 of shape .*; got string"):
        client.predict({"input_ids": ids, "input_mask": ids, "segment_ids": [["a", "b", "c"]]})
    with pytest.raises(ValueError, match="input_ids"):
        client.classify(["a text"])
