"""Bodies: what they may take of memory and time, and that those of some keep out no others."""

import gzip
import http.client
import json
import socket
import zlib

import grpc
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.server import fair_semaphore, http_body
from bert_tf.serving.server.http_body import BodyMemory, HeldBody, HttpError, gunzip
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from tests.serving.http_test import post, send, sized
from tests.serving.models import serve_quickly
from tests.serving.requests import GOOD, MODEL, predict_request
from tests.serving.server_process import wait_for

MIB = 2**20
EMPTY = gzip.compress(b"", mtime=0)  # 20 bytes
TINY = Limits(max_body_bytes=MIB)


def held(limits=TINY):
    return HeldBody(BodyMemory(limits))


def unpacked(body, limits=TINY):
    return gunzip(body, RequestContext(limits=limits), held(limits))


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, MIB])
@pytest.mark.parametrize("level", [0, 9])
def test_gunzip_returns_the_packed_bytes(size, level):
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    limits = Limits(max_body_bytes=4 * MIB)
    assert unpacked(gzip.compress(content, level), limits) == content
    half = size // 2
    assert unpacked(gzip.compress(content[:half], level) + gzip.compress(content[half:], level), limits) == content


def test_members_anywhere_in_a_piece_are_one_body():
    texts = [b"%d," % n * (n % 200) for n in range(4000)]
    body = b"".join(map(gzip.compress, texts))
    assert len(body) > 2**16 and unpacked(body, Limits()) == b"".join(texts)
    assert unpacked(EMPTY * 4096) == b""


def test_a_body_of_empty_members_is_refused_after_the_first_thousands(monkeypatch):
    """64 MiB of them were unpacked for more than an hour: all that follows was copied for each."""
    made = []
    monkeypatch.setattr("bert_tf.serving.server.http_body.zlib.decompressobj",
                        lambda bits, make=zlib.decompressobj: made.append(bits) or make(bits))  # fmt: skip
    with pytest.raises(HttpError, match="The gzip body may have at most 4096 members and has more") as caught:
        unpacked(EMPTY * (64 * MIB // len(EMPTY)))
    assert caught.value.status == 400 and len(made) == 4096


@pytest.mark.parametrize(("body", "status", "words"), [
    (gzip.compress(b"x" * 100, mtime=0)[:-1], 400, "The gzip body ends too early"),
    (gzip.compress(b"x" * 100, mtime=0)[:-9], 400, "The gzip body ends too early"),
    (gzip.compress(b"x", mtime=0) + b"rest", 400, "not gzip"),
    (gzip.compress(b"x", mtime=0)[:-8] + bytes(8), 400, "not gzip"),
    (gzip.compress(bytes(MIB + 1), mtime=0), 413, "may decompress to 1048576 bytes"),
    (gzip.compress(bytes(MIB), mtime=0) * 2, 413, "may decompress to 1048576 bytes"),
])  # fmt: skip
def test_a_damaged_or_too_large_gzip_is_refused(body, status, words):
    with pytest.raises(HttpError, match=words) as caught:
        unpacked(body)
    assert caught.value.status == status


@pytest.mark.parametrize(("call", "words"), [
    (RequestContext(deadline=0.0), "The deadline passed"),
    (RequestContext(is_gone=lambda: True), "The client disconnected"),
])  # fmt: skip
def test_nothing_is_unpacked_for_nobody(call, words):
    with pytest.raises(ServingError, match=words):
        gunzip(gzip.compress(b"{}"), call, held())


def test_who_leaves_while_it_is_unpacked_ends_it():
    answers = iter([False, False, True])
    with pytest.raises(ServingError, match="The client disconnected"):
        gunzip(gzip.compress(bytes(3 * MIB)), RequestContext(is_gone=lambda: next(answers)), held(Limits()))


FULL = r"The server is at its limit of body memory \(4 times `max_body_bytes`\); try again later"


def test_large_bodies_leave_room_for_small_ones():
    memory = BodyMemory(TINY)
    large, small = [HeldBody(memory) for _ in range(4)], HeldBody(memory)
    for each in large:
        each.grow(MIB)
    more = HeldBody(memory)
    more.grow(2**18)
    with pytest.raises(HttpError, match=FULL) as caught:
        more.grow(1)
    assert caught.value.status == 503 and more.size == 2**18  # what is refused is not accounted for
    small.grow(2**18)
    large.pop().free()
    more.grow(1)
    assert [each.size for each in (*large, more, small)] == [MIB] * 3 + [2**18 + 1, 2**18]


def test_small_bodies_are_bounded_too_and_leave_room_for_large_ones():
    memory = BodyMemory(TINY)
    for _ in range(4):
        HeldBody(memory).grow(2**18)
    with pytest.raises(HttpError, match=FULL):
        HeldBody(memory).grow(1)
    HeldBody(memory).grow(MIB)


def test_unpacked_bytes_count_in_the_memory_of_bodies():
    memory = BodyMemory(TINY)
    for size in (MIB, MIB, MIB, MIB // 2):
        HeldBody(memory).grow(size)
    with pytest.raises(HttpError, match=FULL):
        gunzip(gzip.compress(bytes(MIB)), RequestContext(limits=TINY), HeldBody(memory))


def test_a_request_whose_caller_left_while_it_waited_for_its_turn_is_not_read(film, monkeypatch):
    scanned = []
    monkeypatch.setattr("bert_tf.serving.wire_scan.check_message", lambda data, *more: scanned.append(len(data)))
    data = predict_request(text=["x" * 2**19]).SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{film.port}") as channel:
        ask = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with fair_semaphore._interpreter.turn(INTERNAL):  # as another large request would have it
            call = ask.future(data, timeout=60)
            wait_for(lambda: film._grpc.running == 1, 60)
            context = next(iter(film._grpc._answering))
            call.cancel()
            wait_for(lambda: not context.is_active(), 60)
        wait_for(lambda: not film._grpc.running, 60)
        assert not scanned
        assert ask(data, timeout=60) and scanned == [len(data)]


@pytest.fixture(scope="module")
def tiny(film_path):
    """A server that holds four bodies of a megabyte."""
    with serve_quickly(film_path, limits=TINY) as server:
        yield server


def _large(text="fine"):
    return json.dumps({"instances": [text]}).encode().ljust(MIB)


def test_slow_senders_of_large_bodies_keep_nobody_out_who_sends_a_small_one(tiny):
    slow = [socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=60) for _ in range(4)]
    for connection in slow:
        connection.sendall(sized(_large())[:-1])
    good = {"predictions": [GOOD]}
    wait_for(lambda: tiny._rest._bodies._held["large"] == 4 * (MIB - 1), 60)
    status, _, refused = send(tiny, sized(_large()))
    words = "The server is at its limit of body memory (4 times `max_body_bytes`); try again later"
    assert (status, json.loads(refused)) == (503, {"error": words})
    for packed in (False, True):
        body = json.dumps({"instances": ["fine"]}).encode()
        data = sized(gzip.compress(body), "Content-Encoding: gzip") if packed else sized(body)
        status, _, reply = send(tiny, data)
        assert (status, json.loads(reply)) == (200, good)
    for connection in slow:  # all of them are answered, and then there is room again
        connection.sendall(b" ")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        connection.close()
    wait_for(lambda: not tiny._rest._bodies._held["large"], 60)
    assert send(tiny, sized(_large()))[0] == 200


def test_slow_senders_give_way_to_a_large_body_too(tiny, monkeypatch):
    monkeypatch.setattr(http_body, "_SLOW_SECONDS", 0.1)
    slow = [socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=60) for _ in range(4)]
    for connection in slow:
        connection.sendall(sized(_large())[:-1])
    wait_for(lambda: tiny._rest._bodies._held["large"] == 4 * (MIB - 1), 60)

    def is_taken():
        status, headers, _ = send(tiny, sized(_large()))
        assert status == 200 or (status, headers["retry-after"]) == (503, "1")
        return status == 200

    wait_for(is_taken, 60)
    statuses = []
    for connection in slow:
        connection.sendall(b" ")
        statuses.append(connection.recv(12))
        connection.close()
    assert b"HTTP/1.1 408" in statuses and {*statuses} <= {b"HTTP/1.1 408", b"HTTP/1.1 200"}
    wait_for(lambda: not tiny._rest._bodies._held["large"], 60)


def test_bodies_that_are_refused_are_not_held(tiny):
    bomb = sized(gzip.compress(bytes(2 * MIB)), "Content-Encoding: gzip")
    for _ in range(20):
        assert send(tiny, bomb)[0] == 413
    assert send(tiny, sized(_large()))[0] == 200


def test_empty_members_hold_up_nobody(tiny):
    hostile = sized(EMPTY * 50_000, "Content-Encoding: gzip")
    connections = []
    for _ in range(3):
        connections.append(http.client.HTTPConnection("127.0.0.1", tiny.rest_port, timeout=60))
        connections[-1].request("POST", f"{MODEL}:predict", EMPTY * 50_000, {"Content-Encoding": "gzip"})
    assert send(tiny, post("Content-Length: 23"))[0] == 200
    assert [each.getresponse().status for each in connections] == [400] * 3
    assert b"4096 members" in send(tiny, hostile)[2]
    for each in connections:
        each.close()
