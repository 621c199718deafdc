"""What a server must live through: versions that change under load, callers who vanish or dawdle, a stop when busy.

BERT_TF_ABUSE_SWAPS and BERT_TF_ABUSE_CLIENTS set how much of it. A thousand versions, in some twenty-five minutes on
two cores:

    BERT_TF_ABUSE_SWAPS=1000 python -m pytest -s -m slow tests/robustness/endurance_test.py -k versions_change
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import threading
import time
import urllib.request

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from bert_tf.serving import Client, Retry
from tests.serving.models import export
from tests.serving.server_process import running, wait_for

SWAPS = int(os.environ.get("BERT_TF_ABUSE_SWAPS", "50"))
CLIENTS = int(os.environ.get("BERT_TF_ABUSE_CLIENTS", "1000"))
BETWEEN_S = 0.1  # from one version that serves to the next: requests in between, and time to free the old one
SLOW = 200  # connections that stay half open at a time
GRACE_S = 30  # of a stop
HEAD = b"POST /v1/models/film:predict HTTP/1.1\r\nHost: localhost\r\n"
TEXTS = ["a fine film " * 50] * 400  # a request of them takes a while; 16 are what the server takes at a time

pytestmark = pytest.mark.slow


class Load:
    """Threads that ask(number of the thread) over and over until `stop`.

    Attributes:
        answers: how many there were.
        failures: (when the request was sent, what went wrong), seconds of `time.monotonic`.
    """

    def __init__(self, ask, threads):
        self.answers, self.failures = 0, []
        self._lock, self._end = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(ask, i), daemon=True) for i in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, ask, number):
        while not self._end.is_set():
            started = time.monotonic()
            try:
                ask(number)
            except Exception as error:  # whatever it is, the caller has no answer
                self.failures.append((started, repr(error)))
                self._end.wait(0.05)  # a server that is gone must not make this a busy loop
            else:
                with self._lock:
                    self.answers += 1


def ask_rest(server, texts=("fine",), seconds=60):
    url = f"http://127.0.0.1:{server.rest_port}/v1/models/film:predict"
    with urllib.request.urlopen(url, json.dumps({"instances": list(texts)}).encode(), timeout=seconds) as response:
        assert len(json.load(response)["predictions"]) == len(texts)


def seconds_of_a_short_request(server):
    """Returns how long an answer took, the longer of both protocols."""
    times = []
    with Client(f"127.0.0.1:{server.port}", "film", timeout=60) as client:
        client.classify(["fine"])  # connects
        for ask in (lambda: client.classify(["fine"]), lambda: ask_rest(server)):
            started = time.monotonic()
            ask()
            times.append(time.monotonic() - started)
    return max(times)


def assert_alive(server):
    assert server.process.poll() is None, server.log()[-3000:]
    assert "Traceback" not in server.log(), server.log()[:3000]


def test_versions_change_under_load_without_a_failed_request(tmp_path):
    base, aside = tmp_path / "film", tmp_path / "aside"
    base.mkdir()
    aside.mkdir()
    first = export(aside, 1, ballast=8192, warm=True)  # 8 MiB of weights
    shutil.copytree(first, base / "1")
    memory, started = [], time.monotonic()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(base, tmp_path / "log", "--file_system_poll_wait_seconds=0.05"))
        client = stack.enter_context(Client(f"127.0.0.1:{server.port}", "film", timeout=60))
        asks = (lambda: client.classify(["fine", "dull"]), lambda: ask_rest(server, ["fine", "dull"]))
        with Load(lambda number: asks[number % 2](), threads=6) as load:
            for number in range(2, SWAPS + 2):
                shutil.copytree(first, base / f"writing-{number}")
                (base / f"writing-{number}").rename(base / str(number))
                wait_for(lambda number=number: f"Serving version {number} of film" in server.log(), 60)
                shutil.rmtree(base / str(number - 1))
                time.sleep(BETWEEN_S)
                memory.append(server.memory())
                if not (number - 1) % 50:
                    print(f"{time.monotonic() - started:5.0f} s: {number - 1} swaps, {load.answers} answers, "
                          f"{len(load.failures)} failures, {memory[-1]:.0f} MiB", flush=True)  # fmt: skip
        assert_alive(server)
        threads, files = server.threads(), server.open_files()
    early, late = max(memory[:10]), max(memory[-10:])
    print(f"{SWAPS} swaps in {time.monotonic() - started:.0f} s, {load.answers} answers; memory at most {early:.0f} "
          f"MiB in the first ten, {late:.0f} in the last; {threads} threads, {files} open files")  # fmt: skip
    assert not load.failures, (len(load.failures), load.failures[:5])
    assert load.answers > 5 * SWAPS
    assert late < 1.1 * early, memory


def post(document):
    """Returns the bytes of a request."""
    body = json.dumps(document).encode()
    return HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def reset(sock):
    """Hangs up at once, without the farewell that closing sends."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def vanish_from_rest(server, number):
    """Sends a request, all or half of it, and is gone."""
    request = post({"instances": TEXTS[:100]})
    sock = socket.create_connection(("127.0.0.1", server.rest_port), 60)
    sock.sendall(request[: len(request) // (1 + number % 2)])
    time.sleep(0.01 * (number % 3))
    reset(sock)


def vanish_from_grpc(server, number):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(TEXTS[:100]))
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        call = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict.future(request, timeout=60)
        grpc.channel_ready_future(channel).result(60)
        time.sleep(0.01 * (number % 3))
        call.cancel()


def test_clients_who_vanish_leave_nothing_behind(film_path, tmp_path):
    with running(film_path, tmp_path / "log") as server:
        seconds_of_a_short_request(server)
        files = server.open_files()
        numbers = iter(range(CLIENTS))
        lock, ends = threading.Lock(), []

        def work():
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                (vanish_from_rest, vanish_from_grpc)[number // 2 % 2](server, number)
                ends.append(number)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = seconds_of_a_short_request(server)
        wait_for(lambda: server.open_files() < files + 20, 60)
        quiet = seconds_of_a_short_request(server)
        print(f"{len(ends)} gone; a short request took {seconds:.2f} s right after, {quiet:.2f} s later; open files "
              f"{files} before, {server.open_files()} after; {server.threads()} threads")  # fmt: skip
        assert len(ends) == CLIENTS
        assert quiet < 1
        assert_alive(server)


def dawdle(server, number):
    """Opens a connection that will never get on, of one of four kinds; returns it."""
    port = (server.rest_port, server.rest_port, server.rest_port, server.port)[number % 4]
    sock = socket.create_connection(("127.0.0.1", port), 60)
    if number % 4 == 0:
        sock.sendall(HEAD[:-5])
    elif number % 4 == 1:
        sock.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    elif number % 4 == 2:  # does not read an answer that fits into no socket
        image = base64.b64encode(bytes(6_000_000 if number < 80 else 1)).decode()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(post({"signature_name": "echo", "instances": [{"b64": image}]}))
    else:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM")  # gRPC's first words, half of them
    return sock


def test_slow_writers_and_readers_do_not_hold_up_others(film_path, tmp_path):
    with running(film_path, tmp_path / "log") as server:
        seconds_of_a_short_request(server)
        before, threads = server.memory(), server.threads()
        with contextlib.ExitStack() as stack:
            for number in range(SLOW):
                stack.callback(dawdle(server, number).close)
            times = [seconds_of_a_short_request(server) for _ in range(5)]
            memory = server.memory()
        print(f"{SLOW} dawdle; a short request took {max(times):.2f} s at most; {threads} threads before, "
              f"{server.threads()} after; memory {before:.0f} MiB before, {memory:.0f} with them")  # fmt: skip
        assert max(times) < 1
        assert memory - before < 1000
        assert_alive(server)


class KeptConnections:
    """One REST connection for each thread, kept open as long as the server lets it be."""

    def __init__(self, server):
        self._request = post({"instances": TEXTS})
        self._server, self._local = server, threading.local()

    def ask(self):
        if getattr(self._local, "socket", None) is None:
            self._local.socket = socket.create_connection(("127.0.0.1", self._server.rest_port), 60)
        try:
            self._local.socket.sendall(self._request)
            response = http.client.HTTPResponse(self._local.socket)
            response.begin()
            answer = json.loads(response.read())
        except BaseException:
            self._forget()
            raise
        if response.will_close:
            self._forget()
        if response.status != 200:
            raise ConnectionError(f"{response.status} {str(answer)[:300]}")

    def _forget(self):
        self._local.socket.close()
        self._local.socket = None


def test_a_stop_under_load_answers_every_request_that_was_accepted(film_path, tmp_path):
    with running(film_path, tmp_path / "log") as server, contextlib.ExitStack() as stack:
        # It asks once: one whom a full queue refused was not accepted, whatever becomes of a second try.
        client = stack.enter_context(Client(f"127.0.0.1:{server.port}", "film", timeout=120, retry=Retry(1)))
        kept = KeptConnections(server)
        asks = (lambda: client.classify(TEXTS), kept.ask)
        with Load(lambda number: asks[number % 2](), threads=16) as load:
            wait_for(lambda: load.answers > 50 or _not_refused(load), 120)
            assert not _not_refused(load), load.failures[:5]
            stopped = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(GRACE_S + 10)
            seconds = time.monotonic() - stopped
        # Whoever asks in the very moment may meet a closed door; a request that was already there may not.
        accepted = [failure for failure in _not_refused(load) if failure[0] < stopped - 0.2]
        cut_off = [what for _, what in load.failures if "IncompleteRead" in what or "JSONDecode" in what]
        print(f"exit after {seconds:.1f} s with {load.answers} answers, status {code}")
        assert not accepted and not cut_off, (accepted[:5], cut_off[:5])
        assert code == 0 and seconds < GRACE_S, server.log()[-3000:]
        assert "Traceback" not in server.log(), server.log()[:3000]


def _not_refused(load):
    """Returns the failures but those of requests that found the queue full, with --enable_batching: none was taken."""
    return [failure for failure in load.failures if "is full" not in failure[1]]
