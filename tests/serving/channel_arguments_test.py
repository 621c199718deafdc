"""Where gRPC's server listens, with which arguments, and how it sends tensors."""

import asyncio
import socket
import stat

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from bert_tf.serving.client.async_client import AsyncClient
from bert_tf.serving.client.client import Client
from bert_tf.serving.golden_requests import outputs_of
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.grpc_channel import channel_options, read_arguments
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.signature_tensors import fill_proto
from bert_tf.serving.tensor_messages import wire_to_array
from tests.serving.models import serve_quickly


def test_channel_arguments_are_read_and_wrong_ones_refused():
    assert read_arguments("grpc.max_connection_age_ms=2000,grpc.lb_policy_name=grpclb, a=-1,b=4294967296,c=") == {
        "grpc.max_connection_age_ms": 2000,
        "grpc.lb_policy_name": "grpclb",
        "a": -1,
        "b": "4294967296",  # more than gRPC's numbers hold
        "c": "",
    }
    assert read_arguments("") == {}


@pytest.mark.parametrize("text", ["grpc.a", "=1", "a=1,,b=2", "a=1=2", ","])
def test_arguments_that_are_none(text):
    with pytest.raises(ValueError, match="`grpc_channel_arguments` must be comma-separated key=value pairs"):
        read_arguments(text)


def test_arguments_take_the_place_of_ours():
    options = channel_options(Limits(), {"grpc.keepalive_time_ms": 5, "mine": "x"})
    assert len(options) == len(dict(options))
    assert dict(options)["grpc.keepalive_time_ms"] == 5 and dict(options)["mine"] == "x"
    assert dict(options)["grpc.so_reuseport"] == 0


@pytest.fixture(scope="module")
def server(film_path, tmp_path_factory):
    """A server of "film" on a port and a socket, which takes small messages and sends raw tensors."""
    options = {
        "grpc_socket_path": str(tmp_path_factory.mktemp("socket") / "grpc.sock"),
        "grpc_channel_arguments": {"grpc.max_receive_message_length": 1000},
        "enable_serialization_as_tensor_content": True,
    }
    with serve_quickly(film_path, **options) as running:
        yield running


@pytest.fixture(scope="module")
def address(server):
    return f"unix:{server._options.grpc_socket_path}"


def test_an_argument_has_its_effect(server):
    with Client(f"localhost:{server.port}", "film") as client:
        assert client.classify(["a fine film"])[0]["label"] == "good"
        with pytest.raises(ValueError, match="larger than max"):
            client.classify(["fine " * 1000])


def test_both_clients_reach_a_socket(address):
    with Client(address, "film") as client:
        assert client.classify(["a fine film", "a dull one"]) == [
            {"label": "good", "probabilities": {"bad": 0.25, "good": 0.75}},
            {"label": "bad", "probabilities": {"bad": 0.75, "good": 0.25}},
        ]

    async def ask():
        async with AsyncClient(address, "film") as client:
            return await client.classify(["a dull one"])

    assert asyncio.run(ask())[0]["label"] == "bad"


def test_tensors_are_sent_raw(address):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["a fine film", "a dull one"]))
    with grpc.insecure_channel(address) as channel:
        outputs = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, 20).outputs
    expected = np.array([[0.25, 0.75], [0.75, 0.25]], "<f4")
    assert outputs["probabilities"].tensor_content == expected.tobytes() and not outputs["probabilities"].float_val
    assert outputs["label"].tensor_content == b"\4\3goodbad" and not outputs["label"].string_val


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([[1.5, -2.0], [0.0, 3.0]], tf.float32),
        ([1.5, 2.0], tf.bfloat16),
        ([1.5, 2.0], tf.float16),
        ([2**40, -1], tf.int64),
        ([True, False], tf.bool),
        ([["", "é"], ["x" * 300, "y" * 20_000]], tf.string),
        (7, tf.int32),
    ],
)
def test_raw_tensors_are_read_by_tensorflow_and_by_our_client(values, dtype):
    tensor = tf.constant(values, dtype)
    proto = tf.make_tensor_proto(0)
    proto.Clear()
    fill_proto(proto, tensor.numpy(), dtype, as_content=True)
    assert proto.tensor_content
    assert tf.reduce_all(tf.equal(tf.io.parse_tensor(proto.SerializeToString(), dtype), tensor))
    response = predict_pb2.PredictResponse(outputs={"y": proto})
    golden = outputs_of("predict", response)["y"]
    assert golden.shape == tensor.shape and golden.tolist() == tensor.numpy().tolist()
    if dtype != tf.bfloat16:  # which numpy does not know
        read = wire_to_array(proto)
        assert read.shape == tuple(tensor.shape) and read.tolist() == tensor.numpy().tolist()


@pytest.mark.parametrize("content", [b"\1", b"\2\3abcd", b"\1\1abc", b"\x80", b"\1\1a"])
def test_a_broken_raw_tensor_of_strings(content):
    proto = tf.make_tensor_proto(["a", "b"])
    proto.ClearField("string_val")
    proto.tensor_content = content
    with pytest.raises(ValueError, match=r"The response must have 2 strings; got \d bytes"):
        wire_to_array(proto)


def test_a_socket_that_a_server_left_behind_is_replaced(film_path, tmp_path):
    path = tmp_path / "grpc.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    assert path.exists()
    with serve_quickly(film_path, port=None, grpc_socket_path=str(path)) as server:
        assert server.port is None
        with Client(f"unix:{path}", "film") as client:
            assert client.classify(["fine"])[0]["label"] == "good"
    assert not path.exists()


@pytest.mark.slow
def test_a_server_that_is_started_beside_another_takes_its_path(film_path, tmp_path, log):
    """As the C++ server does, and their end-to-end test expects; but the old one must not remove the new one's."""
    path = tmp_path / "grpc.sock"
    options = {"poll_seconds": 0, "port": None, "grpc_socket_path": str(path)}
    old = serve(str(film_path), "old", **options)
    with Client(f"unix:{path}", "old") as early:
        early.classify(["fine"])
        with serve(str(film_path), "new", **options):
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert any(line.startswith(f"Took over {path} from another server") for line in log)
            assert early.classify(["fine"])[0]["label"] == "good"  # over the connection that it has
            old.stop()
            with Client(f"unix:{path}", "new") as client:
                assert client.classify(["fine"])[0]["label"] == "good"
            assert [each.name for each in tmp_path.iterdir()] == ["grpc.sock"]
    assert not path.exists()


def test_paths_that_cannot_be_sockets(film_path, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, tmp_path / ("x" * 120), tmp_path / "none" / "grpc.sock"):
        with pytest.raises(ValueError, match=f"`grpc_socket_path` must be a path of at most 107 bytes.*{path}"):
            serve(str(film_path), "film", port=None, grpc_socket_path=str(path))
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]
