"""The gRPC face, through plain tensorflow-serving-api stubs: answers, and TensorFlow Serving's codes and messages."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.models import example, expected

Code = grpc.StatusCode


def predict_request(signature="", **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto) else proto(value))
    return request


def proto(value, dtype=None):
    return tf.make_tensor_proto(value, dtype)


def examples_request(kind, signature, texts):
    request = kind()
    request.model_spec.name = "film"
    request.model_spec.signature_name = signature
    request.input.example_list.examples.extend(example(text) for text in texts)
    return request


def test_predict_answers_in_typed_fields(stubs):
    response = stubs[0].Predict(predict_request(text=["a fine film", "dull"]))
    assert (response.model_spec.name, response.model_spec.version.value) == ("film", 3)
    assert response.model_spec.signature_name == "serving_default"
    assert list(response.outputs["label"].string_val) == [b"good", b"bad"]
    assert list(response.outputs["probabilities"].float_val) == [0.25, 0.75, 0.75, 0.25]
    assert [dim.size for dim in response.outputs["labels"].tensor_shape.dim] == [2, 2]


def test_predict_takes_a_version_and_a_filter(stubs):
    request = predict_request("numbers", x=np.ones([2, 3], np.float32), scale=np.array([2, 2**31 - 1], np.int32))
    request.model_spec.version.value = 3
    request.output_filter.append("total")
    response = stubs[0].Predict(request)
    assert list(response.outputs) == ["total"]
    assert list(response.outputs["total"].int64_val) == [2, 2**31 - 1]


def test_an_empty_batch_of_text_gives_an_empty_answer(stubs):
    response = stubs[0].Predict(predict_request(text=proto(np.zeros([0], object), tf.string)))
    assert tf.make_ndarray(response.outputs["probabilities"]).shape == (0, 2)


def test_classify_and_regress(stubs):
    response = stubs[0].Classify(examples_request(classification_pb2.ClassificationRequest, "classify", ["fine", "x"]))
    rows = [[(item.label, item.score) for item in row.classes] for row in response.result.classifications]
    assert rows == [[("bad", 0.25), ("good", 0.75)], [("bad", 0.75), ("good", 0.25)]]
    response = stubs[0].Regress(examples_request(regression_pb2.RegressionRequest, "regress", ["fine", "x"]))
    assert [row.value for row in response.result.regressions] == [0.75, 0.25]


def test_a_context_completes_examples(stubs):
    request = examples_request(regression_pb2.RegressionRequest, "regress", [])
    request.input.example_list_with_context.context.CopyFrom(example("fine"))
    request.input.example_list_with_context.examples.extend([tf.train.Example(), example("dull")])
    assert [row.value for row in stubs[0].Regress(request).result.regressions] == [0.75, 0.25]


def test_metadata_and_status(stubs):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "film"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert stubs[0].GetModelMetadata(request).metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["classify"].method_name == "tensorflow/serving/classify"
    assert set(signatures.signature_def["pair"].inputs) == {"text_a", "text_b"}
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "film"
    (status,) = stubs[1].GetModelStatus(request).model_version_status
    assert (status.version, status.state) == (3, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
    assert status.status.error_code == 0


def test_sixteen_mebibytes_pass_both_ways(stubs, film):
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    with grpc.insecure_channel(f"localhost:{film.port}", options=unlimited) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(predict_request("echo", image_bytes=[b"\xff" * 2**22] * 4))
    assert list(response.outputs["image_bytes"].string_val) == [b"\xff" * 2**22] * 4


def _named(name):
    request = predict_request(text=["x"])
    request.model_spec.name = name
    return request


def check(call, request, code, message):
    """The call fails with exactly that; a message of "..." stands for words of the graph's own."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    assert caught.value.code() == code
    if message == "...":
        assert caught.value.details()
    else:
        assert caught.value.details() == message


def test_a_graph_says_what_it_misses(stubs):
    kinds = {"Classify": classification_pb2.ClassificationRequest, "Regress": regression_pb2.RegressionRequest}
    for name, kind in kinds.items():
        request = examples_request(kind, name.lower(), [])
        request.input.example_list.examples.add()  # without the feature
        check(getattr(stubs[0], name), request, Code.INVALID_ARGUMENT, "...")


def test_long_messages_are_truncated(stubs):
    with pytest.raises(grpc.RpcError) as caught:
        stubs[0].Predict(_named("n" * 2000))
    assert caught.value.details() == f"Servable not found for request: Latest({'n' * 2000})"[:1024] + "...TRUNCATED"


def test_what_is_not_offered_says_so(stubs):
    with pytest.raises(grpc.RpcError) as caught:
        stubs[0].MultiInference(inference_pb2.MultiInferenceRequest())
    assert caught.value.code() == Code.UNIMPLEMENTED


def test_expected_is_what_the_model_gives(stubs):
    response = stubs[0].Predict(predict_request(text=["fine"]))
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["probabilities"])[0], expected(0.75, True))
