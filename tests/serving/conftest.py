"""One server for all tests that only ask, and what asks it."""

import json
import urllib.error
import urllib.request

import grpc
import pytest
from absl import logging
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from bert_tf.serving.server import serve
from tests.serving.models import export


@pytest.fixture(scope="session")
def film_path(tmp_path_factory):
    """A base path with version 3 of the model `Film`."""
    base = tmp_path_factory.mktemp("film")
    export(base, 3, warm=True)
    return base


@pytest.fixture(scope="session")
def film(film_path):
    """A server of it, under the name "film"."""
    with serve(str(film_path), "film", poll_seconds=0) as server:
        yield server


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A server of a model whose default signature takes `text_a` and `text_b`, under the name "pairs"."""
    base = tmp_path_factory.mktemp("pairs")
    export(base, 1, default="pair")
    with serve(str(base), "pairs", poll_seconds=0) as server:
        yield server


@pytest.fixture(scope="session")
def stubs(film):
    """The plain stubs of tensorflow-serving-api: (PredictionService, ModelService)."""
    with grpc.insecure_channel(f"localhost:{film.port}") as channel:
        yield (
            prediction_service_pb2_grpc.PredictionServiceStub(channel),
            model_service_pb2_grpc.ModelServiceStub(channel),
        )


@pytest.fixture(scope="session")
def rest(film):
    """rest(path, body=None, method=None) -> (status, JSON or "")."""

    def ask(path, body=None, method=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://localhost:{film.rest_port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text else ""

    return ask


@pytest.fixture
def log():
    """The lines that absl logs while the test runs, as a list that grows."""
    import logging as standard_logging

    lines = []
    handler = standard_logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger, level = logging.get_absl_logger(), logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    logging.set_verbosity(level)
