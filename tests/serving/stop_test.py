"""The end of a server under load: what was accepted is answered, what comes later is not."""

import contextlib
import http.client
import json
import random
import re
import signal
import sys
import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bert_tf.serving.client.client import Client
from bert_tf.serving.server import grpc_service
from bert_tf.serving.server.saved_model import SavedModel
from tests.serving.models import serve_quickly
from tests.serving.server_process import running, wait_for

BODY = b'{"instances": ["fine"]}'
MODEL = "/v1/models/film"


class Askers:
    """Threads that ask over REST, each on a connection that it keeps, until the server tells it to go."""

    def __init__(self, port, count):
        self.port = port
        self.answers = []
        self.cut_off = []
        self.threads = [threading.Thread(target=self.ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        while True:
            try:
                connection.request("POST", f"{MODEL}:predict", BODY)
                response = connection.getresponse()
                json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                self.cut_off.append(error)
                return
            self.answers.append((response.status, time.monotonic()))
            if response.getheader("Connection") == "close":
                connection.close()
                return

    def join(self):
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def slow(monkeypatch):
    """Each run takes 20 ms."""
    run = SavedModel.run

    def later(self, feeds, fetches):
        time.sleep(0.02)
        return run(self, feeds, fetches)

    monkeypatch.setattr(SavedModel, "run", later)


def test_connections_that_stay_open_are_told_to_close_and_lose_nothing(film_path, slow):
    server = serve_quickly(film_path)
    askers = Askers(server.rest_port, 8)
    while len(askers.answers) < 24:
        time.sleep(0.01)
    assert server.stop(20)
    ended = time.monotonic()
    askers.join()
    assert not askers.cut_off
    assert {status for status, _ in askers.answers} == {200}
    assert all(when < ended + 1 for _, when in askers.answers)


def test_grpc_calls_that_were_accepted_are_answered(film_path, slow):
    server = serve_quickly(film_path, rest_api_port=None)
    outcomes = []

    def ask():
        with Client(f"127.0.0.1:{server.port}", "film") as client:
            try:
                while True:
                    outcomes.append(client.classify(["fine"])[0]["label"])
            except ConnectionError as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(outcomes) < 24:
        time.sleep(0.01)
    assert server.stop(20)
    for thread in threads:
        thread.join(60)
    assert sum(outcome != "good" for outcome in outcomes) == 8  # each ends with "nobody answers there", and only so


def test_an_idle_connection_does_not_hold_up_the_end(film_path):
    server = serve_quickly(film_path)
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    connection.request("GET", MODEL)
    connection.getresponse().read()
    began = time.monotonic()
    assert server.stop(20)
    assert time.monotonic() - began < 10
    assert connection.sock.recv(1) == b""
    connection.close()


def test_streams_of_health_and_reflection_and_silent_calls_do_not_hold_up_the_end(film_path, monkeypatch):
    monkeypatch.setattr(grpc_service, "_LAST_SECONDS", 0)
    server = serve_quickly(film_path, rest_api_port=None, health=True, reflection=True)
    leave, seen = threading.Event(), []

    def listen(first):  # as a client that keeps its stream open to ask more
        yield first
        leave.wait(60)

    def say_nothing():
        leave.wait(60)
        yield b""

    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="film"))
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        asking = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(listen(question))
        silent = channel.stream_unary("/tensorflow.serving.PredictionService/Predict").future(say_nothing())
        assert next(asking)
        watcher = threading.Thread(target=lambda: seen.extend(each.status for each in watching))
        watcher.start()
        wait_for(lambda: seen and server._grpc._silent, 60)
        began = time.monotonic()
        assert server.stop(40)
        assert time.monotonic() - began < 20
        watcher.join(60)
        assert seen == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
        assert {asking.code(), silent.code()} <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
        leave.set()


@pytest.mark.slow
def test_the_grace_is_the_longest_that_a_stop_takes(film_path, monkeypatch):
    entered, leave, run = threading.Event(), threading.Event(), SavedModel.run
    server = serve_quickly(film_path)

    def stuck(self, feeds, fetches):
        entered.set()
        leave.wait(60)
        return run(self, feeds, fetches)

    monkeypatch.setattr(SavedModel, "run", stuck)
    failures = []

    def ask():
        with Client(f"127.0.0.1:{server.port}", "film", timeout=60) as client:
            try:
                client.classify(["fine"])
            except (ConnectionError, ValueError) as error:
                failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert entered.wait(60)
    began = time.monotonic()
    assert not server.stop(0.5)  # it says that something still runs
    assert time.monotonic() - began < 15
    assert server.unfinished() == "1 request was cut off"
    thread.join(30)
    leave.set()
    assert isinstance(failures[0].__cause__, grpc.RpcError)


@contextlib.contextmanager
def _served_and_stopped(film_path, log, end, *flags):
    """Runs the program, has end(process) stop it while callers ask, and checks that it has stopped in order."""
    with running(film_path, log, "--grace_seconds=20", *flags) as server:
        askers = Askers(server.rest_port, 4)
        while len(askers.answers) < 8:
            time.sleep(0.01)
        yield server
        end(server.process)
        status = server.process.wait(20)
        askers.join()
        assert status == 0, server.log()
        assert not askers.cut_off
        assert server.log().count("Stopping (") == 1
        assert "cut off" not in server.log() and "Traceback" not in server.log()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(50))
def test_two_signals_within_milliseconds_under_load_are_one_orderly_stop(film_path, tmp_path, number):
    chance = random.Random(number)

    def end(process):
        first, second = chance.sample([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], 2)
        process.send_signal(first)
        time.sleep(chance.uniform(0, 0.005))
        process.send_signal(second)

    flags = ("--tensorflow_intra_op_parallelism=150", "--tensorflow_inter_op_parallelism=120")
    with _served_and_stopped(film_path, tmp_path / "log", end, *flags) as server:
        where = r"gRPC on 127\.0\.0\.1:\d+, REST on http://127\.0\.0\.1:\d+/v1/models/film$"
        assert re.search(where, server.log(), re.MULTILINE)
        assert re.search("Serving version 3 of film.*2 warm-up requests", server.log())
        with Client(f"localhost:{server.port}", "film") as client:
            assert client.classify(["fine"])[0]["label"] == "good"
        if sys.platform == "linux":
            assert server.threads() > 150 + 120


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_is_an_orderly_stop(film_path, tmp_path, number):
    with _served_and_stopped(film_path, tmp_path / "log", lambda process: process.send_signal(number)) as server:
        assert server.process.poll() is None
    assert f"Stopping ({number.name}): " in server.log()
