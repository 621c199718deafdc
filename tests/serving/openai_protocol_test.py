"""OpenAI's POST /v1/embeddings: what is followed, what is refused, and the form of errors."""

import base64
import json
import types

import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server.protocols import embeddings
from bert_tf.serving.server.protocols.adapter import AdapterRequest
from bert_tf.serving.server.protocols.openai import OPENAI
from tests import other_envs
from tests.serving import models
from tests.serving.metrics_page import grown, samples
from tests.serving.requests import send

PATH = "/v1/embeddings"
TEXTS = ["a warm film", "the story of people and music", ""]
CLIENT = """
import json, sys, openai
client = openai.OpenAI(base_url=f"http://localhost:{sys.argv[1]}/v1", api_key="none", max_retries=0)
found = client.embeddings.create(model="embedder", input=["a warm film", "music"])
short = client.embeddings.create(model="embedder", input="music", dimensions=8, encoding_format="float", user="me")
try:
    client.embeddings.create(model="nobody", input="music")
except openai.NotFoundError as error:
    missing = error.code
print(json.dumps([[each.embedding for each in found.data], short.data[0].embedding, found.usage.total_tokens,
                  missing]))
"""


def vectors(server, texts):
    status, found = send(server, "/v1/models/embedder:predict", {"instances": texts})
    assert status == 200, found
    return found["predictions"]


def test_lists_strings_and_usage(ask, tasks):
    expected = vectors(tasks, TEXTS)
    status, found = ask(PATH, {"model": "embedder", "input": TEXTS, "user": "somebody"})
    assert status == 200
    assert found == {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(expected)],
        "model": "embedder",
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
    }
    (alone,) = ask(PATH, {"model": "embedder", "input": TEXTS[0]})[1]["data"]
    np.testing.assert_allclose(alone["embedding"], expected[0], atol=1e-6)


def test_base64_is_little_endian_float32(ask, tasks):
    status, found = ask(PATH, {"model": "embedder", "input": TEXTS, "encoding_format": "base64"})
    assert status == 200
    read = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in found["data"]]
    np.testing.assert_array_equal(read, np.array(vectors(tasks, TEXTS), np.float32))


def test_dimensions_of_matryoshka_training(ask, tasks):
    (whole,) = vectors(tasks, TEXTS[:1])
    for size, same in ((8, whole[:8]), (32, whole)):
        found = ask(PATH, {"model": "embedder", "input": TEXTS[0], "dimensions": size})[1]
        assert found["data"][0]["embedding"] == same
    status, found = ask(PATH, {"model": "embedder", "input": TEXTS[0], "dimensions": 16})
    assert status == 400
    assert "'dimensions' must be 8 or 32" in found["error"]["message"]


def test_shorter_embeddings_have_length_1_where_the_model_normalizes(monkeypatch):
    vectors = np.array([[3, 4, 0, 1], [0, 0, 0, 2]], np.float32)
    monkeypatch.setattr(embeddings, "run_predict", lambda *_: {"embedding": vectors})
    request = AdapterRequest(None, OPENAI, PATH)
    for task, expected in (({"normalize": True}, [[0.6, 0.8], [0, 0]]), ({}, [[3, 4], [0, 0]])):
        version = types.SimpleNamespace(model=types.SimpleNamespace(task=task))
        np.testing.assert_allclose(embeddings.embed(request, version, None, {}, 2), expected, atol=1e-6)
        np.testing.assert_array_equal(embeddings.embed(request, version, None, {}, None), vectors)


def test_dimensions_of_a_model_that_states_none():
    for shape, task in ((None, {"matryoshka_dims": None}), ((), {}), ((None, 4), {"matryoshka_dims": None})):
        signature = types.SimpleNamespace(outputs={"embedding": types.SimpleNamespace(shape=shape)})
        version = types.SimpleNamespace(name="m", model=types.SimpleNamespace(task=task))
        assert embeddings.check_dimensions(version, signature, {}) is None
        with pytest.raises(ServingError, match="'dimensions' must be (4|left out), since the model m was"):
            embeddings.check_dimensions(version, signature, {"dimensions": 3})


@pytest.mark.parametrize(
    "body, status, message",
    [
        ({"input": "a"}, 400, "The body must have the member 'model'"),
        ({"model": "embedder"}, 400, "The body must have the member 'input'"),
        ({"model": "embedder", "input": []}, 400, "'input' must not be empty"),
        ({"model": "embedder", "input": [3, 4]}, 400, "got token ids"),
        ({"model": "embedder", "input": [[3, 4]]}, 400, "check_embedding_ctx_length=False"),
        ({"model": "embedder", "input": ["a", 3]}, 400, "got 3 at index 1"),
        ({"model": "embedder", "input": {"b64": "YQ=="}}, 400, "got JSON Object"),
        ({"model": "embedder", "input": "a", "encoding_format": "int8"}, 400, "'encoding_format' must be"),
        ({"model": "embedder", "input": "a", "dimensions": True}, 400, "'dimensions' must be a whole number"),
        ({"model": "embedder", "input": "a", "user": 3}, 400, "'user' must be a string"),
        ({"model": "embedder", "input": "a", "input_type": "query"}, 400, 'unsupported member "input_type"'),
        ({"model": "nobody", "input": "a"}, 404, "Servable not found for request: Latest(nobody)"),
        ({"model": "", "input": "a"}, 400, "must not be empty"),
        ({"model": 3, "input": "a"}, 400, "'model' must be a string"),
        ({"model": "classifier", "input": "a"}, 400, "does not serve embeddings: its inputs are text"),
        ({"model": "embedder", "input": ["a"] * 5000}, 400, "may have 4096 rows"),
        ([], 400, "must be a JSON object"),
        (b'{"model": "embedder", "input": "a"} and more', 400, "one JSON value"),
        (b'{"model": "embedder", "input": "a", "input": "b"}', 400, "must not repeat a member"),
        (b"{", 400, "JSON Parse error"),
        (b"", 400, "The document is empty"),
    ],
)
def test_refusals_in_openais_form(ask, body, status, message):
    found, answer = ask(PATH, body)
    assert found == status
    assert set(answer) == {"error"} and set(answer["error"]) == {"message", "type", "param", "code"}
    assert message in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["code"] == ("model_not_found" if status == 404 else None)


def test_other_paths_and_methods_are_tensorflow_servings(ask):
    assert ask("/v1/models") == (400, {"error": "Missing model name in request."})
    assert ask("/v1/embedding", {}) == (400, {"error": "Malformed request: POST /v1/embedding"})
    status, answer = ask(PATH)
    assert (status, answer["error"]["message"]) == (400, "Malformed request: GET /v1/embeddings")


def test_rejections_before_the_body_is_read_have_openais_form_too(ask):
    status, answer = ask(PATH, b"x", content_encoding="br")
    assert (status, answer["error"]["type"]) == (415, "invalid_request_error")


def test_protocols_are_chosen(film_path):
    with models.serve_quickly(film_path, rest_api_protocols=()) as server:
        assert send(server, PATH, {}) == (400, {"error": f"Malformed request: POST {PATH}"})
    with pytest.raises(ValueError, match="`rest_api_protocols` must be some of openai.*; got 'soap'"):
        models.serve_quickly(film_path, rest_api_protocols=("soap",))


def test_metrics_have_the_name_of_the_protocol(ask):
    before = samples()
    ask(PATH, {"model": "embedder", "input": "a"})
    ask(PATH, {"model": "nobody", "input": "a"})
    ask("/rerank", {"query": "a", "texts": ["a"]})
    ask("/rerank", {"query": "a", "documents": ["a"]})
    for api, model in (("openai", "embedder"), ("tei", "reranker"), ("rerank", "reranker")):
        labels = {"API": api, "entrypoint": "REST", "model_name": model}
        assert grown(before, ":tensorflow:serving:request_latency_count", **labels) == 1
    assert grown(before, ":tensorflow:serving:request_count", model_name="", status="NOT_FOUND") == 1
    assert not any(("model_name", "nobody") in labels for _, labels in samples())


@pytest.mark.slow
def test_openais_client(tasks):
    out = other_envs.run(other_envs.clients_python(), CLIENT, tasks.rest_port)
    found, short, tokens, missing = json.loads(out.splitlines()[-1])
    expected = np.array(vectors(tasks, ["a warm film", "music"]), np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    alone = np.array(vectors(tasks, ["music"]), np.float32)  # as it was asked
    np.testing.assert_allclose(short, alone[0, :8], atol=1e-7)
    assert (tokens, missing) == (4, "model_not_found")
