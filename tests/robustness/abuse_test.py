"""gRPC requests that are small or broken and cost much: each is refused at once, with a code and words."""

import gc
import http.client
import json
import threading
import time
import weakref

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    input_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
)

from bert_tf.serving import wire_scan
from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.server import grpc_service, predict, scheduling
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.signature_tensors import check_tensor, proto_to_array
from tests.serving.metrics_test import grown, samples
from tests.serving.requests import Code, check, examples_request, predict_request, proto

_PREDICT = "/tensorflow.serving.PredictionService/Predict"


def text(*values, shape, **fields):
    """A TensorProto of strings whose shape is free to lie."""
    tensor = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, string_val=values, **fields)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


@pytest.mark.slow
def test_rows_and_texts_are_bounded(stubs):
    few = "A request may have 4096 rows and has 4097; send it in parts"
    check(stubs[0].Predict, predict_request(text=["x"] * 4097), Code.INVALID_ARGUMENT, few)
    long = [b"x" * (2**22 + 1)]
    with pytest.raises(grpc.RpcError, match="A text may have 4194304 bytes and one has 4194305; shorten it"):
        stubs[0].Predict(predict_request("echo", image_bytes=long))
    repeated = text(b"x" * 2**12, shape=[4096])
    with pytest.raises(grpc.RpcError, match="A text may have 4194304 bytes and one has 16773120; shorten it"):
        stubs[0].Predict(predict_request("echo", image_bytes=repeated))
    request = examples_request(classification_pb2.ClassificationRequest, "classify", ["x"] * 4097)
    check(stubs[0].Classify, request, Code.INVALID_ARGUMENT, few)


def test_numbers_that_a_tensor_does_not_hold_are_few():
    many = tf.make_tensor_proto(7, tf.int32, shape=[4096, 17])
    with pytest.raises(ServingError, match="ids has 69632 elements but contains 1"):
        check_tensor(many, "ids")


def test_a_tensor_of_33_axes_is_refused_where_it_meets_the_graph(film_path):
    """Golden and warm-up requests, which come with a model, take no other way."""
    model = SavedModel(str(film_path / "3"))
    signature = model.signatures["serving_default"]
    feeds = {signature.inputs["text"].tensor: np.full([1] * 33, b"x", object)}
    with pytest.raises(ServingError, match="A tensor may have 32 axes and one has more"):
        model.run(feeds, signature.key[1])
    model.close()


def test_a_value_still_stands_for_a_few():
    assert proto_to_array(text(b"x", shape=[2, 2]), "text").tolist() == [[b"x", b"x"], [b"x", b"x"]]
    filled = tf.make_tensor_proto(7, tf.int32, shape=[3, 2])
    np.testing.assert_array_equal(proto_to_array(filled, "ids"), np.full([3, 2], 7, np.int32))


def test_a_message_that_is_too_large_is_refused(film_path):
    limits = Limits(max_message_bytes=1000)
    with (
        serve(str(film_path), "film", rest_api_port=None, poll_seconds=0, limits=limits) as server,
        grpc.insecure_channel(f"localhost:{server.port}") as channel,
    ):
        call = channel.unary_unary(_PREDICT)
        with pytest.raises(grpc.RpcError) as caught:
            call(predict_request(text=["x" * 1000]).SerializeToString())
        assert caught.value.code() == Code.RESOURCE_EXHAUSTED
        assert call(predict_request(text=["x"]).SerializeToString())


@pytest.mark.parametrize("name", ["😀" * 1000, "\x00\n" * 2000, "é" * 3000], ids=["emoji", "control", "accents"])
def test_messages_fit_into_a_header(stubs, name):
    with pytest.raises(grpc.RpcError) as caught:
        stubs[0].Predict(predict_request(name, text=["x"]))
    assert caught.value.code() == Code.FAILED_PRECONDITION
    assert caught.value.details().startswith('Serving signature key "') and caught.value.details().endswith("TRUNCATED")


def test_broken_messages_leave_no_traceback(film, log, capfd):
    with grpc.insecure_channel(f"localhost:{film.port}") as channel:
        call = channel.unary_unary(_PREDICT)
        for _ in range(200):
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\x0a\xff\xff\xff\xff")
            assert caught.value.code() == Code.INVALID_ARGUMENT
            assert caught.value.details() == "The message is not a valid PredictRequest"
    assert not log
    assert "Traceback" not in capfd.readouterr().err


def test_an_internal_error_is_logged_and_not_sent_over_grpc(film, stubs, monkeypatch, log):
    def fail(*arguments, **keywords):
        raise LookupError("/home/somebody/secret.py")

    monkeypatch.setattr("bert_tf.serving.server.model_status.get_model_status_pb2.GetModelStatusResponse", fail)
    request = grpc_service.METHODS[grpc_service.MODEL]["GetModelStatus"].request()
    request.model_spec.name = "film"
    for _ in range(20):
        check(stubs[1].GetModelStatus, request, Code.INTERNAL,
              "The server failed on this request; see its log for the cause")  # fmt: skip
    assert len([line for line in log if "GetModelStatus failed" in line]) == 1


@pytest.mark.slow
def test_a_call_without_its_request_is_ended(film_path, monkeypatch):
    monkeypatch.setattr(grpc_service, "_PATIENCE", 0.2)
    with serve(str(film_path), "film", rest_api_port=None, poll_seconds=0) as server:
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            silent = threading.Event()

            def requests():
                silent.wait(60)
                yield predict_request(text=["x"]).SerializeToString()

            calls = [channel.stream_unary(_PREDICT).future(requests()) for _ in range(5)]
            codes = {call.exception(timeout=20).code() for call in calls}
            silent.set()
        assert codes == {Code.CANCELLED}


def test_more_requests_than_threads_are_refused(film_path, monkeypatch):
    entered, leave, run = threading.Semaphore(0), threading.Event(), SavedModel.run

    def slow(self, feeds, fetches):
        entered.release()
        assert leave.wait(60)
        return run(self, feeds, fetches)

    with serve(str(film_path), "film", rest_api_port=None, poll_seconds=0, grpc_max_threads=2) as server:
        monkeypatch.setattr(SavedModel, "run", slow)
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            call = channel.unary_unary(_PREDICT, response_deserializer=predict_pb2.PredictResponse.FromString)
            data = predict_request(text=["fine"]).SerializeToString()
            waiting = []
            for _ in range(2):
                waiting.append(call.future(data))
                assert entered.acquire(timeout=60)
            words = "The server is at its limit of 2 concurrent requests (`grpc_max_threads`); try again later"
            before = samples()
            check(call, data, Code.UNAVAILABLE, words)
            counted = grown(before, ":tensorflow:serving:request_count", model_name="", status="UNAVAILABLE")
            assert counted == 1
            asked = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "film"})
            status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(asked, timeout=60)
            assert [each.version for each in status.model_version_status] == [3]
            leave.set()
            assert [one.result().outputs["label"].string_val[0] for one in waiting] == [b"good", b"good"]


def test_more_large_messages_than_memory_is_meant_for_are_refused(film_path, monkeypatch):
    entered, leave, run = threading.Semaphore(0), threading.Event(), SavedModel.run

    def slow(self, feeds, fetches):
        entered.release()
        assert leave.wait(60)
        return run(self, feeds, fetches)

    limits = Limits(max_message_bytes=1000)
    with serve(str(film_path), "film", rest_api_port=None, poll_seconds=0, limits=limits) as server:
        monkeypatch.setattr(SavedModel, "run", slow)
        monkeypatch.setattr(grpc_service, "_LARGE_MESSAGES", 1)
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            call = channel.unary_unary(_PREDICT, response_deserializer=predict_pb2.PredictResponse.FromString)
            large = predict_request(text=["fine " * 100]).SerializeToString()
            waiting = call.future(large)
            assert entered.acquire(timeout=60)
            for _ in range(3):  # one that is refused is not held
                words = "The server is at its limit of message memory (1 times `max_message_bytes`); try again later"
                check(call, large, Code.UNAVAILABLE, words)
            small = call.future(predict_request(text=["fine"]).SerializeToString())
            assert entered.acquire(timeout=60)
            leave.set()
            assert [one.result().outputs["label"].string_val[0] for one in (waiting, small)] == [b"good", b"good"]
            assert call(large).outputs["label"].string_val[0] == b"good"


@pytest.fixture
def held(film_path, monkeypatch):
    """(A server that holds answers of 8 elements, `elements()` that it holds now, those that it held as it wrote.)"""
    monkeypatch.setattr(scheduling, "_SMALL_ANSWER", 2)
    writing, fill = [], predict.fill_proto
    with serve(str(film_path), "film", poll_seconds=0, limits=Limits(max_output_elements=16)) as server:
        with server._registry.lease(model_pb2.ModelSpec(name="film")) as version:
            load = version.scheduler
        monkeypatch.setattr(load.answers, "most", 8)

        def noted(*args):
            writing.append(load.answers.held)
            fill(*args)

        monkeypatch.setattr(predict, "fill_proto", noted)
        yield server, lambda: load.answers.held, writing


def test_answers_are_held_until_they_are_sent(held):
    server, elements, writing = held
    with grpc.insecure_channel(f"localhost:{server.port}") as channel:
        call = channel.unary_unary(_PREDICT, response_deserializer=predict_pb2.PredictResponse.FromString)
        for texts in (["fine"], ["fine"] * 3):  # five elements each: the second is let in, being the only one
            data = predict_request(text=texts).SerializeToString()
            assert len(call(data).outputs["label"].string_val) == len(texts)
            until(lambda: not elements())
        assert set(writing) == {5, 15}
        assert posted(server, 3).status == 200
        until(lambda: not elements())
        check(call, predict_request(text=["fine"] * 9).SerializeToString(), Code.INVALID_ARGUMENT,
              "An output may have 16 elements and labels has 18; ask for less at a time")  # fmt: skip
        assert not elements()


def test_more_answers_than_memory_is_meant_for_are_refused(held, monkeypatch):
    server, elements, writing = held
    entered, leave, fill = threading.Event(), threading.Event(), predict.fill_proto

    def slow(*args):
        entered.set()
        assert leave.wait(60)
        fill(*args)

    monkeypatch.setattr(predict, "fill_proto", slow)
    with grpc.insecure_channel(f"localhost:{server.port}") as channel:
        call = channel.unary_unary(_PREDICT, response_deserializer=predict_pb2.PredictResponse.FromString)
        data = predict_request(text=["fine"]).SerializeToString()
        first = call.future(data)
        assert entered.wait(60)
        refused = posted(server, 1)
        assert refused.status == 503 and refused.getheader("Retry-After") and b"responses of 5 elem" in refused.read()
        gone = call.future(data)
        gone.cancel()
        leave.set()
        assert first.result().outputs["label"].string_val == [b"good"]
        until(lambda: not elements())


def posted(server, count):
    """Asks over REST about so many texts; returns the response."""
    connection = http.client.HTTPConnection("localhost", server.rest_port, timeout=60)
    connection.request("POST", "/v1/models/film:predict", json.dumps({"instances": ["fine"] * count}))
    return connection.getresponse()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_large_answer_to_a_warm_up_holds_nobody_up(held):
    server, elements, _ = held
    with server._registry.lease(model_pb2.ModelSpec(name="film")) as version:
        echo = version.model.signatures["echo"]
        inputs = {"image_bytes": np.array([b""] * 5000, object)}
        predict.run_predict(version, echo, inputs, call=RequestContext(limits=Limits()))
    late = RequestContext(deadline=time.monotonic() + 5)
    with late.work.begun(late, 2**20):  # the interpreter is free
        assert not elements()


def test_a_refused_answer_is_not_kept(film_path, monkeypatch):
    """An error holds the frames that it passed, and a frame that holds the error, all of their arrays."""
    made, run = [], SavedModel.run

    def watched(self, feeds, fetches):
        values = run(self, feeds, fetches)
        made.extend(weakref.ref(value) for value in values)
        return values

    gc.collect()
    gc.disable()
    try:
        limits = Limits(max_output_elements=4)
        with serve(str(film_path), "film", poll_seconds=0, limits=limits) as server:
            monkeypatch.setattr(SavedModel, "run", watched)
            with grpc.insecure_channel(f"localhost:{server.port}") as channel:
                data = predict_request(text=["fine"] * 9).SerializeToString()
                check(channel.unary_unary(_PREDICT), data, Code.INVALID_ARGUMENT,
                          "An output may have 4 elements and label has 9; ask for less at a time")  # fmt: skip
            assert posted(server, 9).status == 400
            assert len(made) == 6
            until(lambda: not [each for each in made if each() is not None])
    finally:
        gc.enable()


WASTE = {
    "empty strings": (tensor_pb2.TensorProto, b"\x42\x00" * 40000, "1000 fields"),
    "empty examples": (input_pb2.ExampleList, b"\x0a\x00" * 40000, "1000 fields"),
    "sizes": (tensor_pb2.TensorProto, b"\x12\xfe\xf0\x04" + b"\x12\x00" * 39999, "1000 fields"),
    "small numbers": (tensor_pb2.TensorProto, b"\x52\x80\xf1\x04" + b"\x01" * 80000, "4000 numbers"),
    "true": (tensor_pb2.TensorProto, b"\x5a\x80\xf1\x04" + b"\x01" * 80000, "4000 numbers"),
    "floats": (tensor_pb2.TensorProto, b"\x2a\x80\xf1\x04" + b"\x01" * 80000, "4000 numbers"),
}


@pytest.mark.parametrize("what", WASTE)
def test_messages_that_would_grow_when_parsed_are_refused_unparsed(what):
    kind, data, words = WASTE[what]
    with pytest.raises(ServingError, match=f"A message may have {words} and has more"):
        wire_scan.check_message(data, kind.DESCRIPTOR, 1000, 4000)


def test_the_scan_lets_pass_what_is_right_and_what_the_parser_will_refuse():
    tensor = proto(np.arange(20000, dtype=np.int32).reshape(5, 4000))
    right = predict_request(ids=tensor, text=["x" * 300] * 400, more=proto(np.zeros(900, bool)))
    right.inputs["ids"].ClearField("tensor_content")
    right.inputs["ids"].int_val.extend(range(3000))
    wire_scan.check_message(right.SerializeToString(), right.DESCRIPTOR, 500, 4000)
    for wrong in (b"\xff" * 70000, b"\x42\xff\xff\xff\x7f" + b"x" * 70000, b"\x0b" * 70000):
        wire_scan.check_message(wrong, right.DESCRIPTOR, 500, 4000)
