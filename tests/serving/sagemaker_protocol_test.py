"""SageMaker's GET /ping and POST /invocations, and the variables of Vertex AI."""

import csv
import http.client

import pytest

from bert_tf.cli import serve as serve_command
from bert_tf.serving.server.protocols.vertex import read_environment
from tests.serving import models
from tests.serving.requests import BAD, GOOD, send

PATH, ATTRIBUTES_NAME = "/invocations", "X-Amzn-SageMaker-Custom-Attributes"
ATTRIBUTES = ATTRIBUTES_NAME.replace("-", "_")
CSV, LINES = {"content_type": "text/csv; charset=utf-8"}, {"content_type": "application/jsonlines"}


@pytest.fixture(scope="module")
def film_alone(film):
    return lambda body=None, path=PATH, **headers: send(film, path, body, **headers)


def test_ping(film_alone, tmp_path):
    assert film_alone(path="/ping") == (200, {"ready": True, "models": {"film": True}})
    with models.serve_quickly(tmp_path) as server:
        assert send(server, "/ping")[0] == 503


@pytest.mark.parametrize(
    "body, headers",
    [
        ({"instances": ["good", "no"]}, {}),
        ({"instances": [{"text": "good"}, {"text": "no"}]}, {"accept": "text/html, Application/JSON;q=0.9"}),
        (["good", "no"], {"content_type": "application/json; charset=utf-8", "accept": "*/*"}),
        (["good", "no"], {ATTRIBUTES: "tfs-model-name=film"}),
        (b'{"text": "good"}\n\n{"text": "no"}', LINES),
        (b'"good"\r\n"no"\r\n', LINES),
        (b"good\nno\n", CSV),
        (b'"good"\r\n\r\n"no"', CSV),
        (b"\xef\xbb\xbfgood\nno", CSV),
    ],
)
def test_rows(film_alone, body, headers):
    assert film_alone(body, **headers) == (200, {"predictions": [GOOD, BAD]})


def test_columns_and_signatures(film_alone):
    assert film_alone({"inputs": {"text": ["good"]}})[1]["outputs"]["label"] == ["good"]
    body = {"signature_name": "numbers", "instances": [{"x": [1, 2, 3], "scale": 2}]}
    assert film_alone(body) == (200, {"predictions": [{"y": [2.0, 4.0, 6.0], "total": 2}]})


def test_csv_has_a_column_for_each_input(pairs):
    assert send(pairs, PATH, b'"a, good",film\na,film\n', **CSV) == (200, {"predictions": [GOOD, BAD]})
    status, answer = send(pairs, PATH, b"a\n", **CSV)
    assert (status, answer["error"]) == (400, "Row 0 of the CSV must have 2 columns, text_a, text_b; got 1")


@pytest.mark.parametrize(
    "body, headers, message",
    [
        ({"instances": ["a"], "parameters": {}}, {}, 'unsupported member "parameters"'),
        ({"instances": ["a"], "signature_name": 3}, {}, "'signature_name' must be a string"),
        ({"instances": ["a"], "signature_name": "nothing"}, {}, '"nothing" not found'),
        ({"instances": []}, {}, "No values in 'instances' array"),
        ({}, {}, "Missing 'inputs' or 'instances' key"),
        (3, {}, "must be a JSON object"),
        (["a"], {"content_type": "application/x-npy"}, "Content-Type must be application/json, "),
        (["a"], {"accept": "text/csv"}, "Accept must allow application/json"),
        (["a"], {"accept": "application/jsonlines"}, "Accept must allow application/json"),
        (["a"], {ATTRIBUTES: "tfs-model-version=3"}, "tfs-model-version, which is not supported"),
        (["a"], {ATTRIBUTES: "tfs-model-name=nobody"}, "Servable not found"),
        (["a"], {ATTRIBUTES: "tfs-model-name=\xff"}, f"The header {ATTRIBUTES_NAME} must be ASCII; got tfs-"),
        (["a"], {"content_type": "application/json\xe9"}, "The header Content-Type must be ASCII"),
        (["a"], {"accept": "*/*; \xe9"}, "The header Accept must be ASCII"),
        (b"a\n\xff", CSV, "The body must be CSV in UTF-8"),
        (b'"a', CSV, "The body must be CSV in UTF-8"),
        (b"\n" * 5, CSV, "No values in 'instances' array"),
        (b"a\n" * 5000, CSV, "may have 4096 rows"),
        (b'"a"\n' * 5000, LINES, "may have 4096 rows"),
        (b'"a" "b"', LINES, "one JSON value"),
        ((b"[" + b"[]," * 9000 + b"[]]\n") * 200, LINES, "may have 1048576 values and has more"),
        (b"\n" + b"\n".join([b"[]"] * 5000), LINES, "may have 4096 rows"),
        (b"," * 2**21, CSV, "may have 1048576 cells and has more"),
        (b"a" * 2**18, CSV, "The body must be CSV in UTF-8: field larger"),
    ],
)
def test_refusals(film_alone, body, headers, message):
    status, answer = film_alone(body, **headers)
    assert status == (404 if "Servable" in message else 400)
    assert set(answer) == {"error"} and message in answer["error"]


def test_a_long_cell_is_refused_whatever_limit_a_library_gave_csv(film_alone):
    body, before = b"a" * 2**17, csv.field_size_limit(2**24)
    try:
        assert film_alone(body, **CSV)[0] == 200
        status, answer = film_alone(body + b"a", **CSV)
    finally:
        csv.field_size_limit(before)
    assert (status, answer["error"]) == (400, "The body must be CSV in UTF-8: field larger than field limit (131072)")


def test_each_accept_header_counts(film):
    connection = http.client.HTTPConnection("localhost", film.rest_port, timeout=60)
    connection.putrequest("POST", PATH)
    for name, value in (("Accept", "text/csv"), ("Accept", "application/json"), ("Content-Length", "8")):
        connection.putheader(name, value)
    connection.endheaders(b'["good"]')
    assert connection.getresponse().status == 200
    connection.close()


def test_a_server_of_several_models_needs_a_name(ask):
    status, answer = ask(PATH, ["a"])
    assert status == 400
    assert answer["error"].endswith("several serve predictions: classifier, embedder, reranker")


def test_vertex_routes(film_path):
    stated = {"AIP_HEALTH_ROUTE": "/ok", "AIP_PREDICT_ROUTE": "/v1/endpoints/3/deployedModels/4:predict"}
    vertex = read_environment(stated)
    with models.serve_quickly(film_path, protocols=[vertex.protocol()]) as server:
        assert send(server, "/ok")[0] == 200
        path = stated["AIP_PREDICT_ROUTE"]
        assert send(server, path, {"instances": ["good", "no"]}) == (200, {"predictions": [GOOD, BAD]})
        status, answer = send(server, path, {"instances": ["good"], "parameters": {"top": 1}})
        assert (status, answer["error"]) == (
            400, 'The body has the unsupported member "parameters"; it may have instances'
        )  # fmt: skip


def test_vertex_routes_that_are_tensorflow_servings_stay_so(film_path):
    vertex = read_environment({"AIP_HEALTH_ROUTE": "/v1/models/film", "AIP_PREDICT_ROUTE": "/v1/models/film:predict"})
    with models.serve_quickly(film_path, protocols=[vertex.protocol()]) as server:
        assert "model_version_status" in send(server, "/v1/models/film")[1]
        body = {"instances": ["good"], "signature_name": "serving_default"}
        assert send(server, "/v1/models/film:predict", body) == (200, {"predictions": [GOOD]})


def test_vertex_health_has_no_path_of_another_page(tmp_path):
    config = tmp_path / "monitoring"
    config.write_text('prometheus_config { enable: true path: "/ok" }')
    monitored = {"monitoring_config_file": str(config)}
    for path, given in (("/ok", monitored), ("/", {"ui": True}), ("/ui/models.json", {"ui": True})):
        vertex = read_environment({"AIP_HEALTH_ROUTE": path})
        with pytest.raises(ValueError, match=f"AIP_HEALTH_ROUTE must differ .*; got {path}. Choose another path"):
            serve_command._options(serve_command.SETTINGS().give(given), {}, vertex)
        serve_command._options(serve_command.SETTINGS(), {}, vertex)


def settings_of(environment, **given):
    return serve_command.with_vertex(serve_command.SETTINGS().give(given), read_environment(environment))


def test_vertex_states_port_and_model(tmp_path):
    settings = settings_of({"AIP_HTTP_PORT": "8080", "AIP_STORAGE_URI": str(tmp_path)})
    assert (settings.rest_api_port, settings.model_base_path) == (8080, str(tmp_path))
    assert settings_of({"AIP_HTTP_PORT": "8080"}, rest_api_port=8080).rest_api_port == 8080
    assert settings_of({"AIP_STORAGE_URI": "gs://a/b"}, model_base_path="c").model_base_path == "c"
    assert settings_of({"AIP_HTTP_PORT": ""}).rest_api_port == 8501


@pytest.mark.parametrize(
    "environment, given, message",
    [
        ({"AIP_HTTP_PORT": "web"}, {}, "AIP_HTTP_PORT must be a port from 1 to 65535; got web"),
        ({"AIP_HTTP_PORT": "0"}, {}, "AIP_HTTP_PORT must be a port"),
        ({"AIP_HEALTH_ROUTE": "ok"}, {}, "AIP_HEALTH_ROUTE must be a path that starts with /; got ok"),
        ({"AIP_HTTP_PORT": "8080"}, {"rest_api_port": 8501}, "in AIP_HTTP_PORT, 8080; got 8501"),
        ({"AIP_STORAGE_URI": "gs://a/b"}, {}, "AIP_STORAGE_URI must be a local directory; got gs://a/b"),
    ],
)
def test_what_vertex_states_and_cannot_be_followed(environment, given, message):
    with pytest.raises(ValueError, match=message):
        settings_of(environment, **given)
