"""One server for all tests that only ask, and what asks it."""

import dataclasses
import functools
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

import grpc
import pytest
from absl import logging
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from bert_tf.export.trained_model import export_trained
from bert_tf.serving.server.model_config import ModelConfig
from bert_tf.serving.server.options import ServerOptions
from bert_tf.serving.server.server import Server, serve
from tests.export.models import write_trained
from tests.serving.models import QUICK, SHARED, export, serve_quickly
from tests.serving.requests import send


@pytest.fixture(scope="session", autouse=True)
def shared_exports(tmp_path_factory):
    """Has the processes of pytest-xdist make each export once: the folders of all of them are in one."""
    base = tmp_path_factory.getbasetemp()
    os.environ[SHARED] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exports")


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


@dataclasses.dataclass(frozen=True)
class ModelServer:
    """Where the model "film" is served, and whether by TensorFlow Serving itself."""

    port: int
    rest_port: int
    real: bool


@pytest.fixture(scope="session")
def model_server(film_path, film):
    """The server that the contract is asked of: ours, or the program that BERT_TF_MODEL_SERVER names."""
    program = os.environ.get("BERT_TF_MODEL_SERVER")
    if not program:
        yield ModelServer(film.port, film.rest_port, real=False)
        return
    port, rest_port = _free_port(), _free_port()
    flags = {"port": port, "rest_api_port": rest_port, "model_name": "film", "model_base_path": film_path}
    process = subprocess.Popen([program, *(f"--{name}={value}" for name, value in flags.items())])
    try:
        _wait(process, f"http://localhost:{rest_port}/v1/models/film")
        yield ModelServer(port, rest_port, real=True)
    finally:
        process.terminate()
        process.wait(60)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(process, url):
    """Returns when the model is available."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                if "AVAILABLE" in response.read().decode():
                    return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"BERT_TF_MODEL_SERVER does not serve {url}; its exit status is {process.poll()}")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A server of a model whose default signature takes `text_a` and `text_b`, under the name "pairs"."""
    base = tmp_path_factory.mktemp("pairs")
    export(base, 1, default="pair")
    with serve_quickly(base, "pairs") as server:
        yield server


@pytest.fixture(scope="session")
def task_exports(made_once, tmp_path_factory):
    """{name of a model: folder of its versions} of tiny models of three tasks, as exports are."""
    base, found = tmp_path_factory.mktemp("tasks"), {}
    for name, task in (("embedder", "embedding"), ("reranker", "reranking"), ("classifier", "classification")):
        trained = made_once(f"trained-{task}", lambda folder, task=task: write_trained(folder, task))
        made = made_once(f"export-{task}-float32-portable", lambda folder, of=trained: export_trained(of, str(folder)))
        found[name] = shutil.copytree(made, base / name)
    file = found["embedder"] / "1" / "assets.extra" / "task.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"matryoshka_dims": [8, 32]}))
    return found


@pytest.fixture(scope="session")
def tasks(task_exports):
    """A server of these models."""
    configs = [ModelConfig(name, str(path)) for name, path in task_exports.items()]
    with Server(configs, ServerOptions(poll_seconds=0, bundle=QUICK.bundle)) as server:
        yield server


@pytest.fixture(scope="session")
def ask(tasks):
    """ask(path, body=None, **headers) -> (HTTP status, JSON or ""), of the server `tasks`."""
    return functools.partial(send, tasks)


@pytest.fixture(scope="session")
def stubs(model_server):
    """The plain stubs of tensorflow-serving-api: (PredictionService, ModelService)."""
    with grpc.insecure_channel(f"localhost:{model_server.port}") as channel:
        yield (
            prediction_service_pb2_grpc.PredictionServiceStub(channel),
            model_service_pb2_grpc.ModelServiceStub(channel),
        )


@pytest.fixture(scope="session")
def rest(model_server):
    """rest(path, body=None, method=None) -> (status, JSON or "")."""
    return functools.partial(send, model_server)


@pytest.fixture
def log():
    """The lines that absl logs while the test runs, as a list that grows."""
    import logging as standard_logging

    lines = []
    handler = standard_logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.get_absl_logger()
    level = logger.level
    logger.setLevel("INFO")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)
