"""How the clients call: repetitions, streams, encryption; both of them, against a server that does what a test says."""

import asyncio
import re
import socket
import subprocess
import threading

import grpc
import numpy as np
import pytest

from bert_tf.serving import AsyncClient, Client, Retry, Tls
from bert_tf.serving.client.results import Embedding
from tests.fake_pandas import DataFrame, Series
from tests.serving.fake_server import FakeServer, failure

Code = grpc.StatusCode
SOON = Retry(first_wait=0.001, longest_wait=0.002)


@pytest.fixture
def server():
    server = FakeServer()
    yield server
    server.stop().wait()


@pytest.fixture
def dead_proxy(monkeypatch):
    """Makes the environment name a proxy that nobody runs for all connections, and returns its address."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    return "127.0.0.1:9"


class Blocking:
    """An AsyncClient whose methods wait, so that a test can be about both clients."""

    def __init__(self, *arguments, **options):
        self._loop = asyncio.new_event_loop()

        async def make():
            return AsyncClient(*arguments, **options)

        self._client = self._loop.run_until_complete(make())

    def stream(self, items, *arguments, **options):
        async def each():
            for item in items:
                yield item

        async def collect():
            return [answer async for answer in self._client.stream(each(), *arguments, **options)]

        return self._loop.run_until_complete(collect())

    def __getattr__(self, name):
        async def call(*arguments, **options):
            return await getattr(self._client, name)(*arguments, **options)

        return lambda *arguments, **options: self._loop.run_until_complete(call(*arguments, **options))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
        self._loop.close()


@pytest.fixture(params=[Client, Blocking], ids=["waits", "async"])
def connect(request, server):
    """connect(**options) -> a client of the server."""
    clients = []

    def make(host="localhost", **options):
        clients.append(request.param(f"{host}:{server.port}", "m", **{"timeout": 30, "retry": SOON} | options))
        return clients[-1]

    yield make
    for client in clients:
        client.__exit__()


def test_a_call_that_finds_no_server_is_tried_again(server, connect):
    server.script = [failure(Code.UNAVAILABLE)] * 2
    assert connect().ask({"text": ["abc"]}) == [{"embedding": [3.0, 3.0]}]
    assert len(server.requests) == 3


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "dns:///localhost", "ipv4:127.0.0.1"])
def test_no_call_to_this_machine_uses_a_proxy(server, connect, dead_proxy, host):
    server.script = [failure(Code.UNAVAILABLE)]
    assert connect(host=host).ask({"text": ["abc"]}) == [{"embedding": [3.0, 2.0]}], "and no repetition"


def test_a_proxy_that_fails_is_named(connect, dead_proxy, monkeypatch):
    client = connect(host="models.example", retry=Retry(1))
    with pytest.raises(ConnectionError, match=f"at models.example:.* the proxy {dead_proxy} from the environment "
                                              "variable grpc_proxy: .* add models.example to no_proxy."):  # fmt: skip
        client.status()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TimeoutError, match=r"within 0.2 s.* the proxy 127.0.0.1:\d+ from the environment"):
            connect(host="models.example", timeout=0.2).status()


def test_an_async_client_is_created_outside_of_its_loop_and_used_in_one_after_another(server):
    client, wanted = AsyncClient(f"localhost:{server.port}", "m"), [{"embedding": [3.0, 1.0]}]

    async def ask():
        return await client.ask({"text": ["abc"]})

    async def embed():
        async with client:
            return [answer async for answer in client.stream(["abc"])]

    assert asyncio.run(ask()) == wanted
    assert asyncio.run(client.ask({"text": ["abc"]})) == [{"embedding": [3.0, 2.0]}], "whose loop starts after the call"
    assert asyncio.run(embed()) == [{"embedding": [3.0, 3.0]}]
    asyncio.run(client.close())


def test_an_async_client_in_two_loops_at_a_time_is_refused(server):
    client, leave = AsyncClient(f"localhost:{server.port}", "m"), threading.Event()
    used = threading.Event()

    async def hold():
        await client.ask({"text": ["abc"]})
        used.set()
        await asyncio.to_thread(leave.wait, 60)

    thread = threading.Thread(target=asyncio.run, args=[hold()])
    thread.start()
    assert used.wait(60)
    try:
        with pytest.raises(ValueError, match="in use in another event loop. Create one AsyncClient for each"):
            asyncio.run(client.ask({"text": ["abc"]}))
    finally:
        leave.set()
        thread.join()


def test_a_call_that_a_stopping_server_cancelled_is_tried_again(server, connect):
    server.script = [failure(Code.CANCELLED)]
    assert len(connect().ask({"text": ["abc"]})) == 1 and len(server.requests) == 2


@pytest.mark.parametrize("why", ["the queue holds 100 requests", "The server is at its limit; try again later"])
def test_a_call_is_tried_no_more_often_than_retry_allows(server, connect, why):
    server.script = [failure(Code.UNAVAILABLE, why)] * 9
    with pytest.raises(ConnectionError, match=f"is overloaded: {why.split(';')[0]}. Try again later, or"):
        connect(retry=Retry(3, 0.001, 0.002)).ask({"text": ["abc"]})
    assert len(server.requests) == 3
    with pytest.raises(ConnectionError):
        connect(retry=Retry(1)).ask({"text": ["abc"]})
    assert len(server.requests) == 4


@pytest.mark.parametrize("code", [Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNKNOWN, Code.ABORTED])
def test_errors_that_would_come_again_are_not_tried_again(server, connect, code):
    server.script = [failure(code)] * 2
    with pytest.raises(ValueError, match=f"rejected the request with {code.name}: because"):
        connect().ask({"text": ["abc"]})
    assert len(server.requests) == 1


def test_the_server_says_when_a_call_is_tried_again(server, connect):
    client = connect(retry=Retry(first_wait=1000, longest_wait=1000))
    # Long before its own wait is over.
    server.script = [failure(Code.UNAVAILABLE, pushback=1), failure(Code.UNAVAILABLE, "full; retry after 0.001 s")]
    assert client.ask({"text": ["abc"]}) == [{"embedding": [3.0, 3.0]}]
    server.script = [failure(Code.UNAVAILABLE, pushback=-1)] * 2  # never
    with pytest.raises(ConnectionError):
        client.ask({"text": ["abc"]})
    assert len(server.requests) == 4


def test_repetitions_end_with_the_timeout(server, connect):
    server.script = [failure(Code.UNAVAILABLE)] * 2
    with pytest.raises(ConnectionError):  # at once: no time is left for the wait
        connect(timeout=30, retry=Retry(first_wait=1000, longest_wait=1000)).ask({"text": ["abc"]})
    assert len(server.requests) == 1


def test_a_server_that_is_started_again_under_a_question(server, connect):
    reached, again = threading.Event(), []

    def restart():
        reached.wait(60)
        server.stop(0).wait()
        again.append(FakeServer(port=server.port))

    server.script = [lambda request, context: reached.set() or threading.Event().wait(0.2)]
    thread = threading.Thread(target=restart)
    thread.start()
    try:
        assert connect(retry=Retry(1000, 0.05, 0.05)).ask({"text": ["abc"]}) == [{"embedding": [3.0, 1.0]}]
        assert len(again[0].requests) == 1
    finally:
        thread.join()
        again[0].stop().wait()


def test_a_server_that_is_gone(server, connect):
    client = connect()
    server.stop(0).wait()
    with socket.socket() as taken:  # so that no other program listens there now
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", server.port))
        with pytest.raises(ConnectionError, match="No model server responded at localhost"):
            client.ask({"text": ["abc"]})


def test_a_refusal_is_held_against_what_the_model_takes(server, connect):
    server.script = [failure(Code.INVALID_ARGUMENT, "slice index 1 of dimension 0 out of bounds")] * 9
    with pytest.raises(ValueError, match=re.escape("'text' must be string of shape [n]; got string of shape [1")):
        connect().ask({"text": [["a", "b"]]})
    server.shape = [-1, -1]
    with pytest.raises(ValueError, match="'text' must be a list of texts for each example; got one text for each"):
        connect().ask({"text": ["a"]})
    with pytest.raises(ValueError, match="request with INVALID_ARGUMENT: slice index 1"):  # nothing is seen
        connect().ask({"text": [["a"]]})


def test_a_stream_keeps_its_order_and_its_bound(server, connect):
    last = threading.Event()
    server.script = [lambda request, context: last.wait(20), *[None] * 2, lambda request, context: last.set()]
    answers = list(connect().stream([f"{'x' * i}" for i in range(40)], in_flight=4))
    assert [answer["embedding"][0] for answer in answers] == list(range(40))
    assert 1 < server.most <= 4
    assert last.is_set()  # the first answer came after that to the fourth


def test_a_stream_reads_no_further_than_its_bound(server):
    taken = []
    with Client(f"localhost:{server.port}", "m", timeout=30) as client:
        stream = client.stream((taken.append(i) or "x" * i for i in range(100)), in_flight=3, batch_size=2)
        answers = [next(stream) for _ in range(4)]
        assert 4 <= len(taken) <= 4 + 3 * 2
        stream.close()
    assert [answer["embedding"][0] for answer in answers] == [0, 1, 2, 3]


def test_examples_of_a_stream(server, connect):
    answers = list(connect().stream(["a", ("bc",), {"text": "def"}], batch_size=2, typed=True))
    assert all(isinstance(answer, Embedding) and answer.embedding.dtype == np.float32 for answer in answers)
    assert [answer.embedding[0] for answer in answers] == [1, 2, 3]
    assert [len(request.inputs[0].value.string_val) for request in server.requests] in ([2, 1], [1, 2])
    with pytest.raises(ValueError, match="Each example must be a string, or a dictionary with the key 'text'; got"):
        list(connect().stream([("a", "b")]))
    with pytest.raises(ValueError, match="`in_flight` must be at least 1; got 0"):
        list(connect().stream([], in_flight=0))


def test_a_failure_in_a_stream(server, connect):
    script = [None, failure(Code.INTERNAL)]
    server.script = script[:]
    first, wrong, third = connect().stream(["a", "b", "c"], in_flight=1, errors="yield")
    assert (first["embedding"][0], third["embedding"][0]) == (1, 1) and isinstance(wrong, ValueError)
    server.script = script[:]
    with pytest.raises(ValueError, match="INTERNAL: because"):
        list(connect().stream(["a", "b", "c"], in_flight=1))


@pytest.mark.parametrize("item", [5, None])
def test_an_item_that_is_no_text(server, connect, item):
    answers = list(connect().stream(["a", item, "c"], errors="yield"))
    assert [type(answer) for answer in answers] == [dict, ValueError, dict]
    assert "An item must be a string, a tuple of strings or a dictionary" in str(answers[1])


def test_one_text_in_place_of_several(server):
    with Client(f"localhost:{server.port}", "m") as client:
        for ask in (client.classify, client.encode, client.stream, lambda text: client.ask({"text": text})):
            message = "must be several texts, such as a list; got one text, .*; put it in a list"
            with pytest.raises(ValueError, match=message):
                list(ask("abc"))
            with pytest.raises(ValueError, match="got a DataFrame of text, label; choose one of them"):
                list(ask(DataFrame({"text": ["a"], "label": [0]})))
        with pytest.raises(ValueError, match="got None at position 1"):
            client.ask({"text": ["a", None]})
        with pytest.raises(ValueError, match="Inputs must be a dictionary .* got list"):
            client.ask(["abc"])


def test_encode_returns_vectors_in_the_order_of_the_texts(server, connect):
    texts = ["x" * n for n in (5, 1, 9, 0, 3)]
    vectors = connect().encode(texts, batch_size=2, in_flight=1)
    assert vectors.dtype == np.float32 and vectors.shape == (5, 2)
    assert vectors[:, 0].tolist() == [5, 1, 9, 0, 3]
    assert vectors[:, 1].tolist() == [1, 2, 1, 3, 2]  # texts of about one length were asked together
    for given in (Series(texts, [4, 2, 0, 1, 3]), iter(texts), np.array(texts)):  # a sorted frame's labels
        assert connect().encode(given)[:, 0].tolist() == [5, 1, 9, 0, 3]
    assert connect().encode([]).shape == (0, 2)
    with pytest.raises(ValueError, match="`texts` must be several texts, such as a list; got one text, "):
        connect().encode("abc")
    with pytest.raises(ValueError, match="is not a classifier with label, probabilities, labels"):
        connect().classify(["a"])


def test_a_call_carries_metadata_and_version_or_label(server, connect):
    connect(metadata=[("authorization", "Bearer x")], label="canary").ask({"text": ["a"]})
    connect(version=3).ask({"text": ["a"]})
    assert server.metadata[0]["authorization"] == "Bearer x"
    first, second = (request.model_spec for request in server.requests)
    assert (first.name, first.version_label, first.HasField("version")) == ("m", "canary", False)
    assert (second.version_label, second.version.value) == ("", 3)
    with pytest.raises(ValueError, match="`version=3` and `label='canary'` cannot be combined"):
        connect(version=3, label="canary")


@pytest.mark.parametrize("arguments", [(0,), (2, -1.0), (2, 3.0, 2.0)])
def test_arguments_of_retry_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="`attempts` must be|`first_wait` must be"):
        Retry(*arguments)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Paths of a key and a certificate for localhost that signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=DNS:localhost"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl to make a certificate")
    return key, certificate


@pytest.mark.parametrize("kind", [Client, Blocking], ids=["waits", "async"])
def test_encryption_both_ways(certificate, kind):
    key, own = certificate
    pairs = [(key.read_bytes(), own.read_bytes())]
    server = FakeServer(grpc.ssl_server_credentials(pairs, own.read_bytes(), require_client_auth=True))
    address = f"localhost:{server.port}"
    once = {"retry": Retry(1), "timeout": 30}
    try:
        with kind(address, tls=Tls(own, key, own), **once) as client:
            assert client.ask({"text": ["abc"]}) == [{"embedding": [3.0, 1.0]}]
        for wrong in (None, Tls(own), Tls()):  # unencrypted; without saying who it is; without trust in the server
            with kind(address, tls=wrong, **once) as client, pytest.raises(ConnectionError):
                client.ask({"text": ["abc"]})
    finally:
        server.stop().wait()
    with pytest.raises(ValueError, match="`key_file` requires `certificate_file`"):
        kind(address, tls=Tls(own, key))
