"""Hostile requests to the paths of other protocols: the server lives, and answers each in the form of its protocol.

BERT_TF_FUZZ_REQUESTS sets how many the longest test sends, BERT_TF_FUZZ_SEED which. The hundred thousand of a release:

    BERT_TF_FUZZ_REQUESTS=100000 python -m pytest -s -m slow tests/robustness/protocols_fuzz_test.py
"""

import collections
import http.client
import json
import os
import re
import sys

import pytest

from tests.conftest import ROOT
from tests.serving import hostile_protocols
from tests.serving.requests import send
from tests.serving.server_process import running

REQUESTS = int(os.environ.get("BERT_TF_FUZZ_REQUESTS", "5000"))
SEED = int(os.environ.get("BERT_TF_FUZZ_SEED", "0"))
FEW = 300  # requests of the quickest test
GROWTH_MIB = 600
STATUSES = {200, 400, 404, 405, 413, 415, 422, 424, 429, 503, 504}
FAULT = re.compile(r"The server failed|Traceback|site-packages|object at 0x")


def check(request, status, text):
    """Checks the form of an answer; returns the protocol whose form an error has."""
    assert status in STATUSES, (request, status, text[:300])
    assert not FAULT.search(text) and str(ROOT) not in text and sys.prefix not in text, (request, status, text[:300])
    if status == 200 or not text:
        return ""
    said = json.loads(text)
    if set(said) == {"message", "detail"}:
        return "rerank"
    if set(said) == {"error", "error_type"}:
        return "tei"
    if set(said) == {"error"} and isinstance(said["error"], dict):
        assert said["error"]["message"], request
        return "openai"
    assert set(said) == {"error"} and isinstance(said["error"], str), (request, text[:300])
    return "tensorflow"


def attack(server, seed, n):
    """Sends requests over one connection; returns the number by (kind, HTTP status)."""
    counts, connection = collections.Counter(), http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    forms = set()
    for request in hostile_protocols.requests(seed, n):
        connection.request(request.method, request.path, request.body, request.headers)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")  # some are in bytes
        forms.add(check(request, response.status, text))
        counts[request.kind, response.status] += 1
    connection.close()
    assert forms == {"", "rerank", "tei", "openai", "tensorflow"}
    return counts


@pytest.mark.slow
def test_a_few_hundred_requests(tasks):
    counts = attack(tasks, SEED, FEW)
    assert counts["proper", 200] > 10 and counts["exchanged", 400] > 20 and counts["bytes", 400] > 10


def test_requests_are_the_same_each_time():
    made = list(hostile_protocols.requests(3, 100))
    assert made == list(hostile_protocols.requests(3, 100)) != list(hostile_protocols.requests(4, 100))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)], ids=["each_alone", "batched"])
def test_very_many_requests(task_exports, tmp_path, flags):
    config = tmp_path / "models.config"
    models = "".join(
        f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" }}\n'
        for name, path in task_exports.items()
    )
    config.write_text(f"model_config_list {{ {models} }}")
    with running(None, tmp_path / "log", f"--model_config_file={config}", *flags) as server:
        before = server.memory()
        counts = attack(server, SEED, REQUESTS // 2)
        print(*sorted(counts.items()), f"{server.memory() - before:.0f} MiB more", sep="\n")
        assert server.alive() and server.memory() - before < GROWTH_MIB
        assert counts["proper", 200] > REQUESTS // 40
        assert "Traceback" not in server.log()
        expected = send(server, "/v1/models/embedder:predict", {"instances": ["a"]})[1]["predictions"][0]
        found = send(server, "/v1/embeddings", {"model": "embedder", "input": "a"})[1]["data"][0]["embedding"]
        assert found == pytest.approx(expected, abs=1e-6)
