"""The API of text-embeddings-inference: what is followed, what is refused, and the form of errors."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from bert_tf.serving.errors import unavailable
from bert_tf.serving.server.protocols import embeddings
from bert_tf.serving.server.protocols.tei import TEI
from tests import other_envs, tiny
from tests.serving import models
from tests.serving.requests import send

TEXTS = ["a warm film", "dull"]
LONG = "music " * 40
CLIENT = """
import json, os, sys
os.environ["HF_HUB_OFFLINE"] = "0"
from huggingface_hub import InferenceClient
client = InferenceClient(f"http://localhost:{sys.argv[1]}/embed")
found = client.feature_extraction("a warm film", normalize=False)
print(json.dumps(found.tolist()))
"""


def predictions(server, model, instances):
    status, found = send(server, f"/v1/models/{model}:predict", {"instances": instances})
    assert status == 200, found
    return found["predictions"]


def test_embed(ask, tasks):
    expected = np.array(predictions(tasks, "embedder", TEXTS))
    status, found = ask("/embed", {"inputs": TEXTS, "normalize": False, "truncate": True})
    assert status == 200
    np.testing.assert_allclose(found, expected, atol=1e-6)
    unit = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(ask("/embed", {"inputs": TEXTS[0]})[1], unit[:1], atol=1e-6)
    short = ask("/embed", {"inputs": TEXTS, "dimensions": 8, "normalize": True, "truncation_direction": "Right"})[1]
    np.testing.assert_allclose(np.linalg.norm(short, axis=-1), 1, atol=1e-6)
    assert np.shape(short) == (2, 8)


def test_truncate_false_refuses_longer_texts(ask):
    fits = "music " * 14  # with [CLS] and [SEP], the 16 tokens that the model reads
    assert ask("/embed", {"inputs": [fits, "a"], "truncate": False})[0] == 200
    status, answer = ask("/embed", {"inputs": ["a", LONG], "truncate": False})
    assert (status, answer["error_type"]) == (413, "Validation")
    assert answer["error"].startswith("1 of 2 inputs have more tokens than the model embedder reads, 16;")
    assert ask("/predict", {"inputs": LONG, "truncate": False})[0] == 413
    assert ask("/rerank", {"query": "a", "texts": ["a", LONG], "truncate": False})[0] == 413
    assert ask("/embed", {"inputs": LONG})[0] == 200


def test_predict(ask, tasks):
    rows = predictions(tasks, "classifier", TEXTS)
    expected = [sorted(zip(row["probabilities"], row["labels"], strict=True), reverse=True) for row in rows]
    expected = [[{"score": score, "label": label} for score, label in row] for row in expected]
    assert ask("/predict", {"inputs": TEXTS[1]}) == (200, predictions_of_one(tasks))
    status, found = ask("/predict", {"inputs": [[text] for text in TEXTS], "raw_scores": False})
    assert status == 200
    assert [[each["label"] for each in row] for row in found] == [[each["label"] for each in row] for row in expected]
    scores = [[[each["score"] for each in row] for row in rows] for rows in (found, expected)]
    np.testing.assert_allclose(*scores, atol=1e-6)


def predictions_of_one(server):
    (row,) = predictions(server, "classifier", TEXTS[1:])
    pairs = sorted(zip(row["probabilities"], row["labels"], strict=True), reverse=True)
    return [{"score": score, "label": label} for score, label in pairs]


def test_predict_takes_pairs(tmp_path):
    models.export(tmp_path, 1, default="pair")
    with models.serve_quickly(tmp_path, "pairs") as server:
        assert send(server, "/predict", {"inputs": ["a good", "film"]}) == (
            200, [{"score": 0.75, "label": "good"}, {"score": 0.25, "label": "bad"}]
        )  # fmt: skip
        both = send(server, "/predict", {"inputs": [["a", "film"], ["a", "good film"]]})[1]
        assert [row[0]["label"] for row in both] == ["bad", "good"]
        status, answer = send(server, "/predict", {"inputs": "a film"})
        assert (status, answer["error"]) == (422, "'inputs' must be pairs of texts for the model pairs")
        status, answer = send(server, "/predict", {"inputs": ["a", "film"], "truncate": False})
        assert (status, answer["error_type"]) == (422, "Validation")  # it is no export of ours, and counts no tokens


def test_rerank_has_teis_form_if_the_body_has_texts(ask, tasks):
    (row,) = predictions(tasks, "reranker", [{"query": "a film", "documents": TEXTS}])
    expected = [{"index": index, "score": row["scores"][index]} for index in row["order"]]
    assert ask("/rerank", {"query": "a film", "texts": TEXTS}) == (200, expected)
    found = ask("/rerank", {"query": "a film", "texts": TEXTS, "return_text": True})[1]
    assert found == [each | {"text": TEXTS[each["index"]]} for each in expected]
    status, answer = ask("/rerank", {"query": "a film", "texts": []})
    assert (status, answer["error_type"]) == (422, "Validation")
    assert set(ask("/rerank", {"query": "a film"})[1]) == {"message", "detail"}


@pytest.fixture(scope="module")
def embedder(task_exports):
    """A server of one model that follows TEI's protocol only."""
    with models.serve_quickly(task_exports["embedder"], "embedder", rest_api_protocols=("tei",)) as server:
        yield server


def test_tokenize(embedder):
    status, ((cls, *tokens, sep),) = send(embedder, "/tokenize", {"inputs": "a Film, of pianos"})
    assert status == 200
    assert cls == {"id": 2, "text": "[CLS]", "special": True, "start": None, "stop": None}
    assert (sep["id"], sep["text"]) == (3, "[SEP]")
    assert [each["text"] for each in tokens] == ["a", "Film", ",", "of", "pianos"]
    assert [(each["start"], each["stop"]) for each in tokens] == [(0, 1), (2, 6), (6, 7), (8, 10), (11, 17)]
    assert [each["id"] for each in tokens] == [tiny.VOCAB.index(each) for each in ("a", "film", ",", "of", "[UNK]")]
    body = {"inputs": ["a", "the film"], "add_special_tokens": False}
    assert [len(each) for each in send(embedder, "/tokenize", body)[1]] == [1, 2]
    for text in ("a" * 2**20, "." * 2**18):
        status, answer = send(embedder, "/tokenize", {"inputs": text})
        assert (status, answer["error"].partition(" and has")[0]) == (422, "A request may have 196608 tokens")


def test_info_and_health(ask, embedder):
    assert ask("/health")[0] == 200
    status, answer = ask("/info")
    assert status == 422
    assert answer["error"].endswith("classification: classifier, embedder, reranker")
    found = send(embedder, "/info")[1]
    assert found["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (found["model_id"], found["max_input_length"], found["max_client_batch_size"]) == ("embedder", 16, 4096)


def test_info_of_a_classifier(task_exports):
    with models.serve_quickly(task_exports["classifier"], "classifier", rest_api_protocols=("tei",)) as server:
        status, found = send(server, "/info")
    assert status == 200
    assert found["model_type"] == {"classifier": {"id2label": {"0": "bad", "1": "good"}}}


@pytest.mark.parametrize(
    "status, found, error_type",
    [(400, 422, "Validation"), (404, 424, "Backend"), (413, 413, "Validation"), (415, 415, "Validation"),
     (429, 429, "Overloaded"), (500, 424, "Backend"), (503, 429, "Overloaded"), (504, 424, "Backend")],
)  # fmt: skip
def test_statuses_of_errors(status, found, error_type):
    assert TEI.write_error(status, "no") == (found, f'{{"error": "no", "error_type": "{error_type}"}}')


def test_when_to_ask_a_busy_server_again(embedder, monkeypatch):
    def refuse(*_):
        raise unavailable("busy")

    monkeypatch.setattr(embeddings, "run_predict", refuse)
    request = urllib.request.Request(f"http://localhost:{embedder.rest_port}/embed", b'{"inputs": "a"}')
    with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(request, timeout=60):
        pass
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "1")


def test_without_the_rerank_protocol_its_path_is_teis(embedder):
    assert send(embedder, "/rerank", {"query": "a", "documents": ["a"]})[1]["error_type"] == "Validation"
    assert send(embedder, "/rerank", {"query": "a", "texts": ["a"]}) == (
        424, {"error": "No model on this server serves reranking", "error_type": "Backend"}
    )  # fmt: skip


@pytest.mark.parametrize(
    "path, body, message",
    [
        ("/embed", {}, "must have the member 'inputs'"),
        ("/embed", {"inputs": []}, "must not be empty"),
        ("/embed", {"inputs": [1]}, "got 1 at index 0"),
        ("/embed", {"inputs": "a", "prompt_name": "query"}, 'unsupported member "prompt_name"'),
        ("/embed", {"inputs": "a", "truncation_direction": "Left"}, '\'truncation_direction\' must be "Right"'),
        ("/embed", {"inputs": "a", "truncate": 1}, "'truncate' must be true or false"),
        ("/embed", {"inputs": "a", "dimensions": 7}, "'dimensions' must be 8 or 32"),
        ("/predict", {"inputs": "a", "raw_scores": True}, "'raw_scores' must be false"),
        ("/predict", {"inputs": ["a", "b"]}, "'inputs' must be texts for the model classifier"),
        ("/predict", {"inputs": [["a"], ["a", "b"]]}, "all with one text or all with two"),
        ("/predict", {"inputs": [["a"], 3]}, "got JSON Number"),
        ("/predict", {"inputs": [["a"], "b"]}, "got JSON String at index 1"),
        ("/predict", {"inputs": ["a", ["b"]]}, 'got ["b"] at index 1'),
        ("/rerank", {"texts": ["a"]}, "must have the member 'query'"),
        ("/rerank", {"query": "a", "texts": ["a", " "]}, "index 1 is blank"),
        ("/rerank", {"query": "a", "texts": ["a"], "documents": ["a"]}, 'unsupported member "documents"'),
    ],
)
def test_refusals_in_teis_form(ask, path, body, message):
    status, answer = ask(path, body)
    assert (status, answer["error_type"]) == (422, "Validation")
    assert message in answer["error"]


@pytest.mark.slow
def test_hugging_faces_client(tasks):
    out = other_envs.run(other_envs.clients_python(), CLIENT, tasks.rest_port)
    np.testing.assert_allclose(json.loads(out.splitlines()[-1]), predictions(tasks, "embedder", TEXTS[:1]), atol=1e-6)
