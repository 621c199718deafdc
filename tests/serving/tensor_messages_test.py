"""Answers of a model or a server: what is made of them takes no more memory than their messages."""

import tracemalloc

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving import messages, tensor_messages
from bert_tf.serving.client.requests import read_outputs
from bert_tf.serving.server.signature_tensors import read_answer
from tests.serving.signatures_test import FLOAT, MIB, STRING, tensor, text

ANSWERS = {
    "as many as a message does not hold": tensor(FLOAT, [2**33], float_val=[1]),
    "strings that a message does not hold": text(2**40),
    "strings of 33 axes": text(*[1] * 33),
    "strings as bytes": tensor(STRING, [2**40], tensor_content=b"\1x"),
    "65 axes as bytes": tensor(STRING, [1] * 65, tensor_content=b"\1x"),
    "a type that there is not": tensor(999, [1], int_val=[1]),
    "numbers beyond their type": tensor(types_pb2.DT_INT8, [1], int_val=[300]),
    "a length without end": tensor(STRING, [1], tensor_content=b"\x80" * MIB),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_is_no_larger_than_its_message(what):
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"^Output x is a tensor whose values do not match its shape: "):
        read_answer(ANSWERS[what], "x")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * MIB


@pytest.mark.parametrize("what", [each for each in ANSWERS if each != "strings of 33 axes"])  # which NumPy can have
def test_a_client_makes_nothing_larger_of_an_answer_than_its_message(what):
    response = predict_pb2.PredictResponse()
    response.outputs["x"].CopyFrom(ANSWERS[what])
    response = messages.PredictResponse.FromString(response.SerializeToString())
    tracemalloc.start()
    with pytest.raises(ValueError, match="^The response "):
        read_outputs(response)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * MIB


def test_an_answer_of_strings_may_have_64_axes():
    for proto in (text(*[1] * 64), tensor(STRING, [1] * 64, tensor_content=b"\1x")):
        found = tensor_messages.wire_to_array(proto)
        assert (found.shape, found.ravel().tolist()) == ((1,) * 64, [b"x"])
