"""A hundred thousand hostile requests over sockets: the server lives, answers each properly, and others hardly notice.

BERT_TF_FUZZ_REQUESTS sets how many, BERT_TF_FUZZ_SEED which, and BERT_TF_FUZZ_SECONDS how long a short request may take
beside them where the machine has other work.
"""

import collections
import http.client
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
import urllib.request

import grpc
import pytest

from bert_tf.serving.client import Client
from tests.conftest import ROOT
from tests.serving import hostile
from tests.serving.server_process import running

REQUESTS = int(os.environ.get("BERT_TF_FUZZ_REQUESTS", "100000"))
SEED = int(os.environ.get("BERT_TF_FUZZ_SEED", "0"))
BIG = 100 if REQUESTS >= 10_000 else 8  # requests of 10 MB among them
SENDERS = 2  # for each protocol
PATIENCE_S = 60  # for any answer
SHORT_S = float(os.environ.get("BERT_TF_FUZZ_SECONDS", "1"))  # for a short request beside them
GROWTH_MIB = 1500  # of the process, with several bodies of 64 MiB in it
LEAK_MIB = 150  # more after the second half of the requests than after the first

_IMPROPER = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED)
_STATUSES = {200, 400, 403, 404, 405, 408, 409, 411, 413, 414, 415, 417, 426, 429, 431, 501, 503, 504, 505}
_PYTHON = re.compile(r"Traceback|site-packages|File \"|\b\w+\.py\b|\b[A-Z][a-z]+(?:Error|Exception)\b|object at 0x")


class Report:
    """What came back, from all threads.

    Attributes:
        counts: of (protocol, kind, code).
        faults: sentences by what they begin with, the request's own beginning at their end.
    """

    def __init__(self, *secrets):
        self.counts, self.faults = collections.Counter(), collections.defaultdict(list)
        self._secrets = secrets

    def note(self, protocol, request, code, text):
        self.counts[protocol, request.kind, str(code)] += 1
        for word in (*self._secrets, *_PYTHON.findall(text)):
            if word in text and word.encode() not in request.data:
                self.fault(request, f"{code} tells of {word}: {text[:300]!r}")

    def fault(self, request, what):
        sentence = f"{request.kind}: {what} (request: {request.method} {request.data[:200]!r})"
        self.faults[sentence[:60]].append(sentence)

    def __str__(self):
        return "\n".join(f"{count:7} {' '.join(key)}" for key, count in sorted(self.counts.items()))


def send_messages(port, requests, report):
    options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
    with grpc.insecure_channel(f"127.0.0.1:{port}", (*options, ("grpc.use_local_subchannel_pool", 1))) as channel:
        for request in requests:
            try:
                channel.unary_unary(request.method)(request.data, timeout=PATIENCE_S)
                report.note("gRPC", request, "OK", "")
            except grpc.RpcError as error:
                report.note("gRPC", request, error.code().name, error.details() or "")
                if error.code() in _IMPROPER:
                    report.fault(request, f"{error.code().name}: {error.details()[:300]}")


class RestSender:
    """Sends bytes over one connection as long as it is fit for more."""

    def __init__(self, port, report):
        self._port, self._report, self._socket = port, report, None

    def send(self, request):
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), PATIENCE_S)
        try:
            response, body = self._exchange(request)
        except (OSError, http.client.HTTPException) as error:  # among the former are resets and timeouts
            self._report.counts["REST", request.kind, type(error).__name__] += 1
            if isinstance(error, TimeoutError) or not request.may_close:
                self._report.fault(request, f"no answer but {error!r}")
            self.close()
            return
        self._check(request, response, body.decode("utf-8", "replace"))
        if response.will_close or request.kind not in ("values", "mutant"):
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
        self._report.note("REST", request, response.status, text)
        if response.status not in _STATUSES:
            self._report.fault(request, f"{response.status}: {text[:300]}")
        if response.status == 200 or not text:
            return
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict) or not isinstance(said.get("error"), str):
            self._report.fault(request, f"{response.status} with something else than an error in JSON: {text[:300]!r}")


def send_exchanges(port, requests, report):
    sender = RestSender(port, report)
    for request in requests:
        sender.send(request)
    sender.close()


class ShortRequests:
    """Asks a short question over and over, and keeps how long each took.

    Attributes:
        seconds: of each answer.
        failures: answers that were none.
    """

    def __init__(self, server):
        self.seconds, self.failures = [], []
        self._stop = threading.Event()
        url = f"http://127.0.0.1:{server.rest_port}/v1/models/film:predict"
        self._threads = [threading.Thread(target=self._ask, args=(ask,), daemon=True) for ask in (
            lambda: json.load(urllib.request.urlopen(url, b'{"instances": ["fine"]}', timeout=PATIENCE_S)),
            lambda: client.classify(["fine"]),
        )]  # fmt: skip
        client = self._client = Client(f"127.0.0.1:{server.port}", "film", timeout=PATIENCE_S)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _ask(self, ask):
        while not self._stop.wait(0.2):
            started = time.monotonic()
            try:
                ask()
            except Exception as error:  # whatever it is, it is a failure
                self.failures.append(repr(error))
            self.seconds.append(time.monotonic() - started)


def parts(requests):
    """Returns as many iterators as there are senders, that take what comes next from one."""
    lock = threading.Lock()

    def take():
        while True:
            with lock:
                request = next(requests, None)
            if request is None:
                return
            yield request

    return [take() for _ in range(SENDERS)]


def attack(server, report, seed, n, big):
    """Sends n requests, half of them to each port; returns the seconds that it took."""
    started = time.monotonic()
    jobs = [(send_messages, server.port, each) for each in parts(hostile.messages(seed, n // 2, big // 2))]
    exchanges = hostile.exchanges(seed, n - n // 2, big - big // 2)
    jobs += [(send_exchanges, server.rest_port, each) for each in parts(exchanges)]
    threads = [threading.Thread(target=send, args=(port, each, report)) for send, port, each in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - started


def test_the_requests_are_the_same_each_time_and_of_all_kinds():
    for make, kinds in (
        (hostile.messages, {"noise", "mutant", "tensor", "spec"}),
        (hostile.exchanges, {"values", "mutant", "path", "bytes", "framing"}),
    ):
        made = list(make(3, 300))
        assert made == list(make(3, 300)) != list(make(4, 300))
        assert {request.kind for request in made} == kinds
    big = [i for i, request in enumerate(hostile.messages(0, 40, 2)) if request.kind == "big"]
    assert big == [19, 39]
    assert next(itertools.islice(hostile.messages(0, 1, 1), 1)).data.count(b"fine ") == hostile.BIG // 5


@pytest.mark.slow
def test_a_hundred_thousand_hostile_requests(film_path, tmp_path):
    report = Report(str(film_path), str(ROOT), sys.prefix)
    with running(film_path, tmp_path / "log") as server:
        before = server.memory()
        with ShortRequests(server) as short:
            seconds = attack(server, report, SEED, REQUESTS // 2, BIG // 2)
            middle = server.memory()
            seconds += attack(server, report, SEED + 1, REQUESTS - REQUESTS // 2, BIG - BIG // 2)
        peak, after = server.memory("VmHWM"), server.memory()
        assert server.process.poll() is None, server.log()[-3000:]
        log = server.log()
    worst = max(short.seconds)
    print(report)
    print(f"{REQUESTS} requests in {seconds:.0f} s; {len(short.seconds)} short ones, the slowest {worst:.2f} s")
    print(f"{before:.0f} MiB before, {middle:.0f} after half of them, {after:.0f} after all, {peak:.0f} at most")
    print(f"{len(log)} characters of log")
    assert not report.faults, "\n".join(f"{len(each)} times {each[0]}" for each in report.faults.values())
    assert sum(report.counts.values()) == REQUESTS
    assert not short.failures and worst < SHORT_S, (worst, short.failures[:10])
    assert peak - before < GROWTH_MIB and after - middle < LEAK_MIB
    assert "Traceback" not in log and log.count("\n") < 1000, log[:3000]
