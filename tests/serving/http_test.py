"""HTTP itself, byte by byte: every request gets an answer in JSON, whatever is wrong with it, and costs no more than
it may."""

import gzip
import http.client
import json
import re
import shutil
import socket
import subprocess
import time

import pytest

from bert_tf.serving.limits import Limits
from tests.serving.metrics_test import grown, samples
from tests.serving.models import serve_quickly
from tests.serving.requests import GOOD, MODEL

LIMITS = Limits(max_message_bytes=2**14, max_body_bytes=2**14, max_batch_size=8)


@pytest.fixture(scope="module")
def strict(film_path):
    """A server of small limits, which gives a request one second."""
    with serve_quickly(film_path, limits=LIMITS, rest_api_timeout_ms=1000) as server:
        yield server


def send(server, data: bytes) -> tuple[int, dict, bytes]:
    """Sends bytes and returns (status, headers in small letters, body) of the first answer."""
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as connection:
        connection.sendall(data)
        reply = connection.makefile("rb")
        status = int(reply.readline().split()[1])
        lines = iter(lambda: reply.readline().strip(), b"")
        pairs = (line.decode().partition(": ") for line in lines)
        headers = {name.lower(): value for name, _, value in pairs}
        return status, headers, reply.read(int(headers["content-length"]))


def post(*headers: str, body: bytes = b'{"instances": ["fine"]}', path: str = f"{MODEL}:predict") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def sized(body: bytes, *headers: str, **path) -> bytes:
    return post(f"Content-Length: {len(body)}", *headers, body=body, **path)


GET = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
BAD = {
    "two lengths": (post("Content-Length: 23", "Content-Length: 3"), 400),
    "one length twice": (post("Content-Length: 23", "Content-Length: 23"), 400),
    "a length with an underscore": (post("Content-Length: 1_9"), 400),
    "a length with a sign": (post("Content-Length: +23"), 400),
    "a negative length": (post("Content-Length: -1"), 400),
    "2^63": (post(f"Content-Length: {2**63}"), 413),
    "2^70": (post(f"Content-Length: {2**70}"), 400),
    "2^40": (post(f"Content-Length: {2**40}"), 413),
    "a byte too many": (post(f"Content-Length: {2**14 + 1}"), 413),
    "a chunk of 2^63": (post("Transfer-Encoding: chunked", body=b"8000000000000000\r\n{"), 408),
    "a chunk of 2^40": (post("Transfer-Encoding: chunked", body=b"10000000000\r\n{"), 408),
    "a chunk of 2^80": (post("Transfer-Encoding: chunked", body=b"1" + b"0" * 20 + b"\r\n{"), 400),
    "a chunk of no size": (post("Transfer-Encoding: chunked", body=b"zz\r\n{"), 400),
    "a size with an underscore": (post("Transfer-Encoding: chunked", body=b"1_7\r\n{"), 400),
    "chunks that add up": (post("Transfer-Encoding: chunked", body=b"2000\r\n" + b" " * 2**13 + b"\r\n2000\r\n" +
                                b" " * 2**13 + b"\r\n1\r\n "), 413),
    "a body that ends too early": (post("Content-Length: 50"), 408),
    "gzip as transfer": (post("Transfer-Encoding: gzip"), 400),
    "gzip in chunks": (post("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501),
    "both lengths": (post("Content-Length: 23", "Transfer-Encoding: chunked"), 400),
    "gzip twice": (post("Content-Length: 23", "Content-Encoding: gzip", "Content-Encoding: gzip"), 415),
    "gzip twice in one line": (post("Content-Length: 23", "Content-Encoding: gzip, gzip"), 415),
    "gzip behind identity": (post("Content-Length: 23", "Content-Encoding: identity", "Content-Encoding: gzip"), 415),
    "chunked twice": (post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    "two hosts": (post("Content-Length: 23", "Host: localhost"), 400),
    "brotli": (post("Content-Length: 23", "Content-Encoding: br"), 415),
    "no gzip": (post("Content-Length: 23", "Content-Encoding: gzip"), 400),
    "half of a gzip": (sized(gzip.compress(b"{}")[:-4], "Content-Encoding: gzip"), 400),
    "a bomb": (sized(gzip.compress(b" " * 2**24), "Content-Encoding: gzip"), 413),
    "bombs in a row": (sized(gzip.compress(b" " * 2**13) * 3, "Content-Encoding: gzip"), 413),
    "TRACE": (b"TRACE / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", 405),
    "CONNECT": (b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    "an unknown method": (b"FOO / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", 400),
    "another method": (b"PUT /v1/models/film HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a long line": (GET.format("/v1/" + "a" * 20000).encode(), 431),
    "a long header": (f"GET / HTTP/1.1\r\nHost: {'a' * 20000}\r\n\r\n".encode(), 431),
    "many headers": (post(*(f"A{i}: b" for i in range(500))), 400),
    "no UTF-8": (b"GET /v1/models/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "NUL": (GET.format("/v1/models/%00").encode(), 404),
    "folders": (GET.format("/v1/models/../../../etc/passwd").encode(), 400),
    "folders in code": (GET.format("/v1/models/..%2f..%2fetc%2fpasswd").encode(), 404),
    "a version of 5,000 digits": (GET.format(f"/v1/models/film/versions/{'7' * 5000}").encode(), 400),
}  # fmt: skip
WAITED_FOR = ("a chunk of 2^63", "a chunk of 2^40")  # a second each, as a body that ends too early


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=pytest.mark.slow) if what in WAITED_FOR else what for what in BAD],
)
def test_bad_requests_get_an_answer_in_json(strict, what):
    data, status = BAD[what]
    found, headers, body = send(strict, data)
    assert (found, headers["content-type"]) == (status, "application/json"), body
    message = json.loads(body)["error"]
    assert message and not re.search(r"Traceback|Error\(|\.py|site-packages|<html", message)


def test_a_second_encoding_is_named(strict):
    """One of two was heeded, and the other passed over."""
    body = gzip.compress(gzip.compress(b'{"instances": ["fine"]}'))
    for headers in (["Content-Encoding: gzip"] * 2, ["Content-Encoding: GZIP,gzip"]):
        status, _, reply = send(strict, sized(body, *headers))
        words = "The Content-Encoding must be gzip or identity, once; this request has gzip, gzip"
        assert (status, json.loads(reply)) == (415, {"error": words})
    status, _, reply = send(strict, post("Content-Length: 23", "Content-Encoding: ", "Content-Encoding: Identity"))
    assert (status, json.loads(reply)) == (200, {"predictions": [GOOD]})


def test_zeros_before_a_version_count_for_nothing(strict):
    assert send(strict, GET.format(f"/v1/models/film/versions/{'0' * 5000}3").encode())[0] == 200


@pytest.mark.parametrize(("path", "status"), [
    (MODEL, 200), (f"{MODEL}/metadata", 200), (f"{MODEL}/versions/9", 404), ("/v1/models/no", 404), ("/v1/", 400),
    ("/healthz", 200),
])  # fmt: skip
def test_head_is_answered_as_get_without_the_body(strict, path, status):
    found = []
    for method in ("GET", "HEAD"):
        connection = http.client.HTTPConnection("127.0.0.1", strict.rest_port, timeout=60)
        connection.request(method, path)
        response = connection.getresponse()
        found.append((response.status, response.headers["Content-Type"], response.headers["Content-Length"]))
        body = response.read()
        connection.close()
    assert found[0] == found[1] and found[0][0] == status and body == b""


@pytest.mark.parametrize("data", [
    post("Content-Length: 23"),
    post("Transfer-Encoding: chunked", body=b'1\r\n{\r\n16;x=y\r\n"instances": ["fine"]}\r\n0\r\nA: b\r\n\r\n'),
    sized(gzip.compress(b'{"instances": ') + gzip.compress(b'["fine"]}'), "Content-Encoding: gzip"),
    post("Content-Length: 23").replace(b"POST /v1", b"POST http://x/v1"),
], ids=["a length", "chunks", "gzip in two parts", "a proxy's URL"])  # fmt: skip
def test_bodies_by_length_in_chunks_gzipped_or_through_a_proxy_are_answered(strict, data):
    status, _, body = send(strict, data)
    assert (status, json.loads(body)) == (200, {"predictions": [GOOD]})


def test_a_caller_who_asks_first_is_told_to_go_on(strict):
    status, headers, body = None, None, None
    with socket.create_connection(("127.0.0.1", strict.rest_port), timeout=60) as connection:
        connection.sendall(post("Content-Length: 23", "Expect: 100-continue", body=b""))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"instances": ["fine"]}')
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.close()
    status, headers, body = send(strict, post(f"Content-Length: {2**40}", "Expect: 100-continue", body=b""))
    assert status == 413


COSTLY = {
    "rows": ({"instances": ["x"] * 9}, "A request may have 8 rows and has 9; send it in parts"),
    "columns": ({"inputs": ["x"] * 9}, "A request may have 8 rows and has 9; send it in parts"),
    "a text": ({"inputs": ["é" * 513]}, "A text may have 1024 bytes and one has 1026; shorten it"),
    "texts": ({"inputs": ["x" * 1000] * 5},
              "The texts of an input may have 4096 bytes together and have 5000; send them in parts"),
    "texts of rows": ({"instances": ["x" * 1000] * 5},
                      "The texts of an input may have 4096 bytes together and have 5000; send them in parts"),
    "bytes": ({"inputs": {"b64": "AAAA" * 400}}, "A text may have 1024 bytes and one has 1200; shorten it"),
    "empty lists": ({"inputs": [[]] * 256},
                    "JSON Parse error: The document may have 256 values and has more; send it in parts"),
    "elements": ({"inputs": [["x"] * 60] + [[]] * 20},
                 "A tensor may have 1024 elements and one has 1260; send it in parts"),
    "examples": ({"examples": [{"text": "x"}] * 9}, "A request may have 8 rows and has 9; send it in parts"),
    "an example": ({"examples": [{"text": "x" * 1010}]}, "A text may have 1024 bytes and one has 1031; shorten it"),
    "a context": ({"context": {"text": "x" * 300}, "examples": [{}] * 4},
                  "A text may have 1024 bytes and one has 1284; shorten it"),
}  # fmt: skip


@pytest.mark.parametrize("what", COSTLY)
def test_costly_documents_are_refused(strict, what):
    document, message = COSTLY[what]
    document = {"signature_name": "classify" if "examples" in document else "serving_default", **document}
    method = "classify" if "examples" in document else "predict"
    status, _, body = send(strict, sized(json.dumps(document).encode(), path=f"{MODEL}:{method}"))
    assert (status, json.loads(body)) == (400, {"error": message})


HALF = '"\\ud83d"'
BROKEN = {
    "a surrogate in a text": (b'{"instances": [%b]}' % HALF.encode(), "surrogate"),
    "in the signature": (b'{"signature_name": %b}' % HALF.encode(), "surrogate"),
    "in a name": (b'{"examples": [{%b: 1}]}' % HALF.encode(), "surrogate"),
    "the second half first": (b'{"instances": ["\\ude00\\ud83d"]}', "surrogate"),
    "as bytes": (b'{"instances": ["\xed\xa0\xbd"]}', "Invalid encoding in string. at offset: 16"),
    "a number of 5,000 digits": (b'{"instances": [%b]}' % (b"7" * 5000), "Number too big"),
    "66 lists": (b'{"instances": %b%b}' % (b"[" * 66, b"]" * 66), "nest"),
    "UTF-16": ('{"instances": ["fine"]}'.encode("utf-16"), "Invalid encoding"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_documents_are_refused_in_words(film, what):
    body, words = BROKEN[what]
    method = "classify" if b"examples" in body else "predict"
    status, _, reply = send(film, sized(body, path=f"{MODEL}:{method}"))
    assert status == 400
    message = json.loads(reply)["error"]
    assert message.startswith("JSON Parse error: ") and words in message


def test_whole_pairs_of_surrogates_are_text(film):
    body = b'{"signature_name": "echo", "instances": ["\\ud83d\\ude00 \\\\ud83d"]}'
    status, _, reply = send(film, sized(body))
    assert status == 200 and json.loads(reply)["predictions"][0]["b64"] == "8J+YgCBcdWQ4M2Q="


def test_a_name_of_a_megabyte_is_not_sent_back(film):
    body = json.dumps({"signature_name": "😀" * 250000, "instances": ["x"]}).encode()
    status, _, reply = send(film, sized(body))
    assert status == 400 and len(reply) < 5000 and json.loads(reply)["error"].endswith("...TRUNCATED")


def test_an_internal_error_is_logged_once_and_not_sent(film, monkeypatch, log):
    from bert_tf.serving.server import rest_api

    def fail(*arguments):
        raise RuntimeError("/home/somebody/secret.py")

    monkeypatch.setitem(rest_api._ANSWERS, "predict", fail)
    for _ in range(20):
        status, _, reply = send(film, post("Content-Length: 23"))
        assert status == 500
        assert json.loads(reply) == {"error": "The server failed on this request; see its log for the cause"}
    assert len([line for line in log if "predict failed" in line]) == 1


def test_more_requests_than_threads_are_refused(film_path, monkeypatch):
    import threading

    from bert_tf.serving.server.saved_model import SavedModel

    entered, leave, run = threading.Semaphore(0), threading.Event(), SavedModel.run

    def slow(self, feeds, fetches):
        entered.release()
        assert leave.wait(60)
        return run(self, feeds, fetches)

    with serve_quickly(film_path, rest_api_num_threads=2) as server:
        monkeypatch.setattr(SavedModel, "run", slow)
        waiting = [http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60) for _ in range(2)]
        for connection in waiting:
            connection.request("POST", f"{MODEL}:predict", b'{"instances": ["fine"]}')
            assert entered.acquire(timeout=60)
        before = samples()
        status, headers, reply = send(server, post("Content-Length: 23"))
        message = "The server is at its limit of 2 concurrent requests (`rest_api_num_threads`); try again later"
        assert (status, headers["retry-after"], json.loads(reply)) == (503, "1", {"error": message})
        counted = grown(before, ":tensorflow:serving:request_count", model_name="film", status="UNAVAILABLE")
        assert counted == 1
        assert send(server, GET.format("/healthz").encode())[0] == 200
        for path in (MODEL, f"{MODEL}/metadata", f"{MODEL}/versions/3"):
            assert send(server, GET.format(path).encode())[0] == 200
        leave.set()
        assert [connection.getresponse().status for connection in waiting] == [200, 200]
        for connection in waiting:
            connection.close()


def test_a_request_is_answered_in_its_time(film_path, monkeypatch):
    from bert_tf.serving.server.saved_model import SavedModel

    run = SavedModel.run

    def slow(self, feeds, fetches):
        time.sleep(1)
        return run(self, feeds, fetches)

    with serve_quickly(film_path, rest_api_timeout_ms=100) as server:
        monkeypatch.setattr(SavedModel, "run", slow)
        assert send(server, post("Content-Length: 23"))[0] == 504


def test_pages_from_elsewhere_may_ask_where_that_is_wanted(film_path, film):
    question = b"OPTIONS /v1/models/film:predict HTTP/1.1\r\nHost: localhost\r\nOrigin: http://y\r\n\r\n"
    assert send(film, question)[0] == 403
    with serve_quickly(film_path, rest_api_enable_cors_support=True) as server:
        for data in (question, post("Content-Length: 23")):
            status, headers, _ = send(server, data)
            assert (status, headers["access-control-allow-origin"]) == (200, "*")


def test_a_connection_serves_chunked_and_gzipped_bodies_and_survives_errors(film):
    body = json.dumps({"instances": ["fine"]}).encode()
    connection = http.client.HTTPConnection("localhost", film.rest_port, timeout=60)
    for data, headers, status in (
        (iter([body[:5], body[5:]]), {}, 200),  # sent in chunks
        (b"{", {}, 400),
        (gzip.compress(body), {"Content-Encoding": "gzip"}, 200),
    ):
        connection.request("POST", f"{MODEL}:predict", data, headers)
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/json"
        answer = json.loads(response.read())
        assert response.status == status, answer
    assert answer == {"predictions": [GOOD]}
    connection.request("POST", f"{MODEL}:predict", b"no gzip", {"Content-Encoding": "gzip"})
    response = connection.getresponse()
    assert response.status == 400 and response.getheader("Connection") == "close"
    connection.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl(film):
    url = f"http://localhost:{film.rest_port}{MODEL}:predict"
    big = json.dumps({"instances": ["fine " * 300000]})  # over 1 MiB, for which curl asks whether to go on
    for body in ('{"instances": ["fine"]}', big):
        command = ["curl", "--silent", "--fail", "--data-binary", "@-", url]
        done = subprocess.run(command, input=body, capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(done.stdout) == {"predictions": [GOOD]}
