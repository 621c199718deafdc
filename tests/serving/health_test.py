"""Probes, reflection and Prometheus's page, asked of a server; the files that turn them on."""

import json
import types
import urllib.error
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bert_tf.serving.client.client import Client
from bert_tf.serving.server import metrics
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.side_services import Health
from bert_tf.serving.server.versions import State
from tests.serving.metrics_test import grown, samples
from tests.serving.models import serve_quickly

Status = health_pb2.HealthCheckResponse


@pytest.fixture(scope="module")
def watched(film_path):
    """A server with everything that watches it."""
    options = {"health": True, "reflection": True, "metrics_path": metrics.PATH}
    with serve_quickly(film_path, **options) as server:
        yield server


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """A server of a model that has no version yet."""
    with serve(str(tmp_path_factory.mktemp("none")), "film", poll_seconds=0, health=True) as server:
        yield server


def get(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}{path}", timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check(server, name):
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=20).status


NAMES = ["", "film", "PredictionService", "ModelService", "tensorflow.serving.PredictionService",
         "tensorflow.serving.ModelService"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_grpc_health(watched, waiting, name):
    assert check(watched, name) == Status.SERVING
    assert check(waiting, name) == Status.NOT_SERVING


def test_health_of_an_unknown_model_or_without_the_option_is_an_error(watched, film):
    with pytest.raises(grpc.RpcError) as caught:
        check(watched, "other")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as caught:
        check(film, "")  # the service is off unless it is asked for
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


class Models:
    """A registry whose models come and go."""

    def __init__(self, **states):
        self.all = states

    def names(self):
        return list(self.all)

    def states(self, name):
        return {1: State(self.all[name])}


def test_health_follows_the_models():
    models = Models(a="LOADING", b="AVAILABLE")
    health = Health(models, ["s"])

    def ask(name):
        return health.Check(health_pb2.HealthCheckRequest(service=name), None).status

    assert [ask(name) for name in ("", "s", "a", "b")] == [Status.NOT_SERVING] * 3 + [Status.SERVING]
    models.all = {"a": "AVAILABLE"}
    assert [ask(name) for name in ("", "s", "a", "b")] == [Status.SERVING] * 3 + [Status.SERVICE_UNKNOWN]
    models.all = {}
    assert [ask(name) for name in ("", "s", "b")] == [Status.NOT_SERVING] * 2 + [Status.SERVICE_UNKNOWN]
    health.stop()
    assert ask("") == Status.NOT_SERVING


def test_a_watcher_that_comes_as_the_server_stops_hears_that_it_does_not_serve():
    """The stop may begin between its first answer and the end of its call, and ends only watchers that it knows."""
    health, said = Health(Models(film="AVAILABLE"), ["s"]), []
    health._refresh()

    def send(response):
        health._end.set()
        said.append(response and response.status)

    context = types.SimpleNamespace(add_callback=lambda _: True)
    health.Watch(health_pb2.HealthCheckRequest(service="film"), context, send)
    assert said == [Status.SERVING, Status.NOT_SERVING, None]
    health.stop()
    assert len(said) == 3


def test_http_probes(watched, waiting):
    assert get(watched, "/healthz") == get(waiting, "/healthz") == (200, "ok")
    status, text = get(watched, "/readyz")
    assert (status, json.loads(text)) == (200, {"ready": True, "models": {"film": True}})
    before = metrics.count_of("/tensorflow/serving/request_count")
    status, text = get(waiting, "/readyz")
    assert (status, json.loads(text)) == (503, {"ready": False, "models": {"film": False}})
    assert metrics.count_of("/tensorflow/serving/request_count") == before + 1  # as every 503


def test_reflection_tells_services_and_messages(watched, film):
    def ask(server, **question):
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            requests = iter([reflection_pb2.ServerReflectionRequest(**question)])
            return next(iter(stub.ServerReflectionInfo(requests, timeout=20)))

    names = {service.name for service in ask(watched, list_services="").list_services_response.service}
    assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService", "grpc.health.v1.Health"} <= names
    found = ask(watched, file_containing_symbol="tensorflow.serving.PredictRequest")
    assert b"output_filter" in b"".join(found.file_descriptor_response.file_descriptor_proto)
    with pytest.raises(grpc.RpcError) as caught:
        ask(film, list_services="")
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_requests_are_counted_by_model_status_and_face(watched):
    before = samples()
    url = f"http://127.0.0.1:{watched.rest_port}/v1/models/film:predict"
    urllib.request.urlopen(url, b'{"instances": ["fine"]}', timeout=60).close()
    with Client(f"127.0.0.1:{watched.port}", "film") as client:
        client.classify(["fine"])
        with pytest.raises(ValueError):
            client.predict({"text": ["x"]}, signature="q")
    with Client(f"127.0.0.1:{watched.port}", "any name at all") as client, pytest.raises(ValueError):
        client.classify(["fine"])
    name = ":tensorflow:serving:request_count"
    assert grown(before, name, model_name="film", status="OK") == 2
    assert grown(before, name, model_name="film", status="FAILED_PRECONDITION") == 1
    assert grown(before, name, model_name="", status="NOT_FOUND") == 1
    latency = ":tensorflow:serving:request_latency_count"
    for api, entrypoint in (("predict", "REST"), ("Predict", "GRPC")):  # of the refused one none
        assert grown(before, latency, model_name="film", API=api, entrypoint=entrypoint) == 1
    unknown = (latency, frozenset({"model_name": "", "API": "Predict", "entrypoint": "GRPC"}.items()))
    assert samples().get(unknown) == before.get(unknown)
    status, text = get(watched, metrics.PATH)
    assert status == 200 and f'{name}{{model_name="film",status="OK"}}' in text
    assert "any name" not in text


def test_rest_counts_what_asks_about_a_model_and_what_is_malformed(watched):
    before = samples()
    for path in ("/v1/models/film", "/v1/models/film/metadata", "/v1/models/film:predict"):
        get(watched, path)
    name = ":tensorflow:serving:request_"
    assert grown(before, f"{name}count", model_name="film", status="OK") == 2
    assert grown(before, f"{name}count", model_name="", status="INVALID_ARGUMENT") == 1
    assert grown(before, f"{name}latency_count", model_name="film", API="", entrypoint="REST") == 2


def test_a_warm_up_is_measured_under_its_folder(film_path):
    before = samples()
    with serve(str(film_path), "again", poll_seconds=0):
        pass
    labels = {"model_path": str(film_path / "3"), "status": "OK"}
    assert grown(before, ":tensorflow:serving:model_warmup_latency_count", **labels) == 1
    assert grown(before, ":tensorflow:serving:model_warmup_latency_sum", **labels) > 0


def test_the_page_is_where_the_file_says(tmp_path, film):
    file = tmp_path / "monitoring.config"
    for text, path in (
        ("prometheus_config { enable: true }", metrics.PATH),
        ('prometheus_config { enable: true path: "/figures" }', "/figures"),
        ("prometheus_config { }", None),
        ("", None),
    ):
        file.write_text(text)
        assert metrics.read_path(str(file)) == path
    assert get(film, metrics.PATH)[0] == 404
    file.write_text('prometheus_config { enable: true path: "figures" }')
    with pytest.raises(ValueError, match="`monitoring_config_file` must have a path that starts with /"):
        metrics.read_path(str(file))
    file.write_text("prometheus { }")
    words = r"the message MonitoringConfig in text format\. Cannot use .*monitoring\.config: Error parsing .*: 1:1 : "
    with pytest.raises(ValueError, match=f"must be a file with {words}"):
        metrics.read_path(str(file))
    with pytest.raises(ValueError, match="`monitoring_config_file` must be a file.*No such file"):
        metrics.read_path(str(tmp_path / "none"))
