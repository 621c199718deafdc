"""A server that answers texts with LiteRT lives through hostile texts, changing versions and the largest requests."""

import contextlib
import json
import math
import pathlib
import shutil
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED
from bert_tf.serving.client.client import Client
from bert_tf.serving.limits import Limits
from tests.export.models import write_trained
from tests.processor import needs_int8
from tests.robustness.endurance_test import Load, ask_rest, assert_alive
from tests.serving.server_process import running, wait_for

SWAPS = 8
GROWTH_MIB = 300  # of the process, by the largest requests that are permitted, one after another
LEAK_MIB = 60  # of as many versions that have come and gone
LIMITS = Limits()

pytestmark = [pytest.mark.slow, needs_int8, pytest.mark.parametrize("engine", ["auto", "litert"])]


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """An export in int8, of which LiteRT answers up to 64 texts whatever this machine finds faster."""
    folder = tmp_path_factory.mktemp("film")
    write_trained(folder / "trained", "classification")
    path = pathlib.Path(export_trained(str(folder / "trained"), str(folder / "export"), ExportOptions("int8", "cpu")))
    speed = {MOST_TEXTS: {"8": 64, "16": 64}, INTERPRETERS: 2, ONLY_SHORT: False}
    (path / FOLDER / SPEED).write_text(json.dumps(speed), encoding="utf-8")
    return path


TEXTS = {
    "nothing": "",
    "white space": " \t\n\u3000\u2028" * 9,
    "control characters": "\x00\x01\x7f\ufffd\u200b a\x00film",
    "marks without a letter": "\u0301" * 3000,
    "many marks on a letter": "e" + "\u0301\u0327" * 3000,
    "one long word": "a" * 300_000,
    "punctuation": "." * 300_000,
    "no spaces": "\u96fb\u5f71" * 9000,
    "both directions": "\u202e\u05d0\u0628 film \u202c" * 30,
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 300,
    "not assigned": "\U000e0fff\u0378\U0010ffff",
    "special tokens": "[CLS] [SEP] [MASK] [PAD] ##film",
    "JSON": '{"instances": [[[[' * 50,
    "format strings": "%s %n {0.__class__} \\ud800 ${x}",
}
BYTES = {"not UTF-8": b"a \xff\xfe\xc3 film \xed\xa0\x80", "cut in a character": "caf\u00e9".encode()[:-1]}

REFUSED = (
    b'{"instances": ["\\ud800"]}',
    b'{"instances": ["\xff"]}',
    {"instances": [["a"]]},
    {"instances": [None]},
    {"instances": ["a"] * (LIMITS.max_batch_size + 1)},
    {"instances": ["a" * (LIMITS.max_text_bytes + 1)]},
)


def post(server, document):
    """Returns (status, JSON) of the response to a body, which may be given as bytes."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    url = f"http://127.0.0.1:{server.rest_port}/v1/models/film:predict"
    try:
        with urllib.request.urlopen(url, body, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check(probabilities):
    assert len(probabilities) == 2 and all(map(math.isfinite, probabilities))
    assert abs(sum(probabilities) - 1) < 1e-5


def test_hostile_texts_get_an_answer_over_both_protocols(version, engine, tmp_path):
    with (
        running(version.parent, tmp_path / "log", f"--engine={engine}") as server,
        Client(f"127.0.0.1:{server.port}", "film", timeout=60) as client,
    ):
        for text in [*TEXTS.values(), *BYTES.values()]:
            by_grpc = client.predict({"text": np.array([text], object)})["probabilities"][0]
            check(by_grpc)
            if isinstance(text, str):
                status, document = post(server, {"instances": [text]})
                assert status == 200
                np.testing.assert_allclose(document["predictions"][0]["probabilities"], by_grpc, rtol=1e-6)
        for body in REFUSED:
            status, document = post(server, body)
            assert status == 400 and document["error"], document
        assert post(server, {"instances": ["a film"]})[0] == 200
        assert_alive(server)


def test_versions_change_under_load_without_a_failed_request(version, engine, tmp_path):
    base, memory = tmp_path / "film", []
    base.mkdir()
    shutil.copytree(version, base / "1")
    flags = (f"--engine={engine}", "--file_system_poll_wait_seconds=0.05")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(base, tmp_path / "log", *flags))
        client = stack.enter_context(Client(f"127.0.0.1:{server.port}", "film", timeout=60))
        asks = (lambda: client.classify(["a film", "dull"]), lambda: ask_rest(server, ["a film", "dull"]))
        with Load(lambda number: asks[number % 2](), threads=4) as load:
            for number in range(2, SWAPS + 2):
                shutil.copytree(version, base / f"writing-{number}")
                (base / f"writing-{number}").rename(base / str(number))
                wait_for(lambda number=number: f"Serving version {number} of film" in server.log(), 120)
                shutil.rmtree(base / str(number - 1))
                answers = load.answers
                wait_for(lambda answers=answers: load.answers > answers + 5 or load.failures, 60)
                memory.append(server.memory())
        assert_alive(server)
    print(f"{load.answers} answers; MiB after each version: {[round(each) for each in memory]}")
    assert not load.failures, load.failures[:5]
    assert memory[-1] - memory[SWAPS // 2 - 1] < LEAK_MIB, memory


def test_the_largest_permitted_requests_need_little_memory(version, engine, tmp_path):
    large = {
        "texts": [b"a"] * LIMITS.max_batch_size,
        "long texts": [b"." * LIMITS.max_text_bytes] * (LIMITS.max_input_text_bytes // LIMITS.max_text_bytes),
        "distinct words": [b" ".join(b"%x" % n for n in range(100_000))],
    }
    with (
        running(version.parent, tmp_path / "log", f"--engine={engine}") as server,
        Client(f"127.0.0.1:{server.port}", "film", timeout=300) as client,
    ):
        client.classify(["a film"])
        idle = server.memory()
        for texts in large.values():
            for row in client.predict({"text": np.array(texts, object)})["probabilities"]:
                check(row)
        print(f"{idle:.0f} MiB when idle, {server.memory('VmHWM'):.0f} at most")
        with pytest.raises((grpc.RpcError, ValueError), match="may have"):
            client.predict({"text": np.array([b"a"] * (LIMITS.max_batch_size + 1), object)})
        assert server.memory("VmHWM") - idle < GROWTH_MIB
        assert_alive(server)
