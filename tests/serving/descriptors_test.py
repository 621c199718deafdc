"""Connections beyond the descriptors that the server may have: few lines in its log, and others come in again."""

import resource
import socket
import time
import urllib.request

import pytest

from bert_tf.serving import Client
from tests.serving.server_process import running, wait_for

pytestmark = pytest.mark.slow
FREE = 64  # descriptors that are left when the connections come
CONNECTIONS = 300


def _answers(server, over_grpc):
    try:
        if over_grpc:
            with Client(f"127.0.0.1:{server.port}", "film", timeout=2) as client:
                return bool(client.classify(["fine"]))
        url = f"http://127.0.0.1:{server.rest_port}/v1/models/film"
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


@pytest.mark.parametrize("over_grpc", [False, True], ids=["REST", "gRPC"])
def test_connections_that_say_nothing_take_all_descriptors(film_path, tmp_path, over_grpc):
    with running(film_path, tmp_path / "log") as server:
        assert _answers(server, over_grpc)
        before = len(server.log())
        most = server.open_files() + FREE
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
        port = server.port if over_grpc else server.rest_port
        silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(CONNECTIONS)]
        wait_for(lambda: server.open_files() >= most - 1, 60)
        time.sleep(5)  # in which the log grew by five megabytes
        written = len(server.log()) - before
        print(f"{written} bytes of log, {server.open_files()} of {most} descriptors")
        assert written < 5000
        if not over_grpc:  # who is silent gives way
            wait_for(lambda: _answers(server, over_grpc), 60)
        for connection in silent:
            connection.close()
        wait_for(lambda: _answers(server, over_grpc), 60)
        assert len(server.log()) - before < 10_000
