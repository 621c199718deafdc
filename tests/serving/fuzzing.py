"""What sends hostile requests to a server in a process of its own, and what is wrong with its answers."""

import base64
import collections
import http.client
import json
import pathlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
from google.protobuf.message import DecodeError, Message

from bert_tf.serving.client.channel import Retry
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.grpc_service import METHODS
from tests.serving import hostile_configs
from tests.serving.hostile import Hostile

PATIENCE_S = 60  # for any answer
_SENDERS = 2  # for each protocol
_LAST = 5  # requests of each sender that are kept
_SLOWEST = 5  # requests that are told of
_PROGRESS_S = 10
_IMPROPER = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED)
_STATUSES = {200, 400, 403, 404, 405, 408, 409, 411, 413, 414, 415, 417, 421, 426, 429, 431, 501, 503, 504, 505}
_PYTHON = re.compile(r"Traceback|site-packages|File \"|\b\w+\.py\b|\b[A-Z][a-z]+(?:Error|Exception)\b|object at 0x")


class ServerDied(Exception):
    """The server's process has ended."""


class Report:
    """What came back, from all threads.

    Args:
        alive: whether the server's process is there.
        secrets: words that no answer may have.

    Attributes:
        counts: of (protocol, kind, code).
        faults: sentences by what they begin with, the request's own beginning at their end.
        last: the last requests of each sender, by its thread.
        slowest: (seconds, what it was) of those whose answers took longest, the slowest first.
    """

    def __init__(self, alive: Callable[[], bool], *secrets: str):
        self.counts, self.faults = collections.Counter(), collections.defaultdict(list)
        self.last = collections.defaultdict(lambda: collections.deque(maxlen=_LAST))
        self.slowest, self._since = [], {}
        self._alive, self._secrets = alive, secrets
        self._lock = threading.Lock()

    def sending(self, request: Hostile):
        sender = threading.get_ident()
        self.last[sender].append(request)
        self._since[sender] = time.monotonic()

    def note(self, protocol: str, request: Hostile, code, text: str = ""):
        """Counts an answer, or with the name of an exception that there was none.

        Raises:
            ServerDied: the server is gone.
        """
        seconds = time.monotonic() - self._since[threading.get_ident()]
        with self._lock:
            self.counts[protocol, request.kind, str(code)] += 1
            if len(self.slowest) < _SLOWEST or seconds > self.slowest[-1][0]:
                what = f"{protocol} {request.kind} {code} of {len(request.data)} bytes: {request.data[:150]!r}"
                self.slowest = sorted([*self.slowest, (seconds, what)], reverse=True)[:_SLOWEST]
        for word in (*self._secrets, *_PYTHON.findall(text)):
            if word in text and word.encode() not in request.data:
                self.fault(request, f"{code} tells of {word}: {text[:300]!r}")
        if not self._alive():
            raise ServerDied

    def fault(self, request: Hostile, what: str):
        sentence = f"{request.kind}: {what} (request: {request.method} {request.data[:200]!r})"
        self.faults[sentence[:60]].append(sentence)

    def write_last(self, file: pathlib.Path):
        """Writes what was sent last, a JSON object with the bytes as base64 on each line."""
        lines = [
            json.dumps({"sender": sender, "kind": each.kind, "method": each.method,
                        "data": base64.b64encode(each.data).decode()})
            for sender, requests in self.last.items() for each in requests
        ]  # fmt: skip
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __str__(self):
        return "\n".join(f"{count:7} {' '.join(key)}" for key, count in sorted(self.counts.items()))


def send_messages(port: int, requests: Iterator[Hostile], report: Report):
    options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
    with grpc.insecure_channel(f"127.0.0.1:{port}", (*options, ("grpc.use_local_subchannel_pool", 1))) as channel:
        calls = collections.defaultdict(lambda: None)
        for request in requests:
            report.sending(request)
            call = calls[request.method] = calls[request.method] or channel.unary_unary(request.method)
            try:
                call(request.data, timeout=PATIENCE_S)
                report.note("gRPC", request, "OK")
            except grpc.RpcError as error:
                if error.code() in _IMPROPER:
                    report.fault(request, f"{error.code().name}: {error.details()[:300]}")
                report.note("gRPC", request, error.code().name, error.details() or "")


class RestSender:
    """Sends bytes over one connection as long as it is fit for more."""

    def __init__(self, port: int, report: Report):
        self._port, self._report, self._socket = port, report, None

    def send(self, request: Hostile):
        self._report.sending(request)
        try:
            if self._socket is None:
                self._socket = socket.create_connection(("127.0.0.1", self._port), PATIENCE_S)
            response, body = self._exchange(request)
        except (OSError, http.client.HTTPException) as error:  # among the former are resets and timeouts
            self.close()
            if isinstance(error, TimeoutError) or not request.may_close:
                self._report.fault(request, f"no answer but {error!r}")
            self._report.note("REST", request, type(error).__name__)
            return
        self._check(request, response, body.decode("utf-8", "replace"))
        if response.will_close or not request.keep:
            self.close()

    def close(self):
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _exchange(self, request):
        try:
            self._socket.sendall(request.data)
            if request.may_close:
                self._socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was read: the answer may still be there
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        return response, response.read()

    def _check(self, request, response, text):
        if response.status not in _STATUSES:
            self._report.fault(request, f"{response.status}: {text[:300]}")
        self._report.note("REST", request, response.status, text)
        if response.status == 200 or not text:
            return
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict) or not isinstance(said.get("error"), str):
            self._report.fault(request, f"{response.status} with something else than an error in JSON: {text[:300]!r}")


def send_exchanges(port: int, requests: Iterator[Hostile], report: Report):
    sender = RestSender(port, report)
    try:
        for request in requests:
            sender.send(request)
    finally:
        sender.close()


class ShortRequests:
    """Asks short questions over and over while others do harm, and keeps how long each took.

    Args:
        server: a `ServerProcess`, with the model `models.Film` as "film".
        others: names of models that take one text and give `probabilities`; what each answers now is right.

    Attributes:
        seconds: of each answer.
        failures: what came in place of the right answer.
    """

    def __init__(self, server, *others: str):
        self.seconds, self.failures = [], []
        self._server, self._stop = server, threading.Event()
        address = f"127.0.0.1:{server.port}"
        self._clients = {name: Client(address, name, timeout=PATIENCE_S) for name in ("film", *others)}
        self._expected = {name: self._over_grpc(name) for name in others} | {"film": np.array([0.25, 0.75])}
        self._threads = [threading.Thread(target=self._ask, args=(name, ask), daemon=True)
                         for name in self._clients for ask in (self._over_grpc, self._over_rest)]  # fmt: skip

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for client in self._clients.values():
            client.close()

    def _over_grpc(self, name):
        return self._clients[name].predict({"text": ["fine"]})["probabilities"][0]

    def _over_rest(self, name):
        for _ in range(Retry().attempts):  # where the queue is full it is asked again, as over gRPC
            connection = http.client.HTTPConnection("127.0.0.1", self._server.rest_port, timeout=PATIENCE_S)
            connection.request("POST", f"/v1/models/{name}:predict", b'{"instances": ["fine"]}')
            response = connection.getresponse()
            answer = json.load(response)
            connection.close()
            if response.status == 200:
                return answer["predictions"][0]["probabilities"]
            hint = re.search(r"is full: .* retry after ([\d.]+) s", str(answer))
            if response.status != 503 or not hint:
                break
            time.sleep(float(hint[1]))
        raise ConnectionError(f"{response.status} {answer}")

    def _ask(self, name, ask):
        while not self._stop.wait(0.2):
            started = time.monotonic()
            try:
                np.testing.assert_allclose(ask(name), self._expected[name], atol=1e-4)
            except Exception as error:  # whatever it is, it is a failure
                self.failures.append(f"{name}: {error!r}")
                if not self._server.alive():
                    return
            self.seconds.append(time.monotonic() - started)


class Publisher:
    """Publishes a version of a model every few seconds, with hostile requests to warm up with, or with none.

    Args:
        base: base path with a version 1, which stays.
        requests: for gRPC; a version takes some of them.

    Attributes:
        published: how many versions.
    """

    _SECONDS, _REQUESTS = 3, 20

    def __init__(self, base: pathlib.Path, requests: Iterator[Hostile]):
        self.published = 0
        self._base, self._requests = base, requests
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            number = self.published + 2
            count = self._REQUESTS if number % 2 else 0
            requests = [each for _, each in zip(range(count), self._requests, strict=False)]
            aside = self._base / f"writing-{number}"
            hostile_configs.write_version(aside, self._base / str(number), self._base / "1", requests, parsed)
            self.published += 1
            self._stop.wait(self._SECONDS)


def parsed(request: Hostile) -> Message | None:
    """Returns the message of a request for gRPC, None where its bytes hold none."""
    service, _, method = request.method.strip("/").partition("/")
    try:
        return METHODS[service][method].request.FromString(request.data)
    except DecodeError:
        return None


def attack(server, report: Report, messages: Iterator[Hostile], exchanges: Iterator[Hostile], total: int) -> float:
    """Sends all requests, several at a time on each port; returns the seconds that it took.

    It ends early where the server's process does; `report` has what was sent last.
    """
    started = time.monotonic()
    jobs = [(send_messages, server.port, each) for each in _parts(messages)]
    jobs += [(send_exchanges, server.rest_port, each) for each in _parts(exchanges)]
    threads = [threading.Thread(target=_quietly, args=(send, port, each, report)) for send, port, each in jobs]
    for thread in threads:
        thread.start()
    told = started
    for thread in threads:
        while thread.is_alive():
            thread.join(1)
            if time.monotonic() - told >= _PROGRESS_S:
                told = time.monotonic()
                done = sum(report.counts.values())
                memory = f"{server.memory():.0f} MiB" if server.alive() else "the server has ended"
                print(f"{told - started:5.0f} s: {done:,} of {total:,}, {done / (told - started):.0f}/s, {memory}",
                      flush=True)  # fmt: skip
    return time.monotonic() - started


def _quietly(send, port, requests, report):
    try:
        send(port, requests, report)
    except ServerDied:
        report.fault(Hostile("server", b""), "its process has ended")


def _parts(requests):
    """Returns as many iterators as there are senders, that take what comes next from one."""
    lock = threading.Lock()

    def take():
        while True:
            with lock:
                request = next(requests, None)
            if request is None:
                return
            yield request

    return [take() for _ in range(_SENDERS)]
