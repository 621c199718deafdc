"""The server as a program and as an object: ports, start, graceful stop."""

import concurrent.futures
import json
import socket
import threading
import time
import urllib.request

import pytest

from bert_tf.serving.client.client import Client
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.server import serve
from tests.serving.models import serve_quickly
from tests.serving.programs import run_program


def test_a_stop_finishes_what_runs_and_takes_nothing_new(film_path, monkeypatch):
    entered, run = threading.Semaphore(0), SavedModel.run
    server = serve_quickly(film_path)

    def slow(self, feeds, fetches):
        entered.release()
        time.sleep(0.2)
        return run(self, feeds, fetches)

    monkeypatch.setattr(SavedModel, "run", slow)

    def over_rest():
        url = f"http://localhost:{server.rest_port}/v1/models/film:predict"
        with urllib.request.urlopen(url, b'{"instances": ["fine"]}', timeout=60) as response:
            return json.load(response)["predictions"][0]["label"]

    with Client(f"localhost:{server.port}", "film") as client, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(client.classify, ["fine"]), pool.submit(over_rest)]
        for _ in jobs:
            assert entered.acquire(timeout=60)
        server.stop()
        assert [jobs[0].result()[0]["label"], jobs[1].result()] == ["good", "good"]
        with pytest.raises(ConnectionError):
            client.classify(["fine"])
    with pytest.raises(OSError):
        over_rest()


def test_a_port_that_is_taken_is_an_error_that_says_so(film_path, film):
    with pytest.raises(ValueError, match=rf"Cannot bind the gRPC address 127\.0\.0\.1:{film.port}: "):
        serve(str(film_path), "film", port=film.port)
    with pytest.raises(ValueError, match="Cannot bind the REST address"):
        serve(str(film_path), "film", rest_api_port=film.rest_port)


def test_a_base_path_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="`model_base_path` must be a directory"):
        serve(str(tmp_path / "no"), "film")


def test_a_base_path_with_something_else_than_versions_is_refused(film_path, tmp_path):
    message = rf"got {film_path}/3, which is a version itself, .*; use its parent directory, {film_path}\.$"
    with pytest.raises(ValueError, match=f"`model_base_path` must be a model's directory, .* {message}"):
        serve(str(film_path / "3"), "film")
    (tmp_path / "films").symlink_to(film_path)
    with pytest.raises(ValueError, match=f"which has one directory per model; use one of them, {tmp_path}/films\\.$"):
        serve(str(tmp_path), "film")
    with pytest.raises(ValueError, match="`model_name` must not be empty: requests use this name"):
        serve(str(film_path), "")


def test_rest_can_be_left_out(film_path):
    with serve(str(film_path), "film", rest_api_port=None, poll_seconds=0) as server:
        assert server.rest_port is None


def test_the_program_says_what_is_wrong(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_program("serve", f"--model_base_path={tmp_path}", f"--port={port}")
    assert done.returncode == 1
    assert "Error: Cannot bind the gRPC address" in done.stderr and "Traceback" not in done.stderr


def test_parameters_of_batches_come_with_batches(tmp_path):
    flags = [f"--model_base_path={tmp_path}", "--batching_parameters_file=batching_parameters.txt"]
    done = run_program("serve", *flags)
    assert done.returncode == 1
    assert " requires --enable_batching" in done.stderr
