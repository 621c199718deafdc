"""Versions: which is served, what happens to a broken one, and that no request is lost in an exchange."""

import concurrent.futures
import gc
import shutil
import threading
import time
import urllib.request
import weakref

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving.batching_parameters import Batching
from bert_tf.serving.catalog import Catalog
from bert_tf.serving.client import Client
from bert_tf.serving.errors import ServingError
from bert_tf.serving.predict import run
from bert_tf.serving.saved_model import SavedModel
from bert_tf.serving.server import serve
from bert_tf.serving.version_folders import explain_no_versions, find_versions
from bert_tf.serving.versions import ServedModel, State
from tests.serving.models import expected, export, truncate, variables, write_warmup


def ask(model, number=None):
    """Returns (version that answered, probability of "good" for a good text)."""
    with model.lease(number) as version:
        inputs = {"text": np.array([b"fine"], object)}
        outputs = run(version, version.model.signatures["serving_default"], inputs, ["probabilities"])
        return version.number, float(outputs["probabilities"][0, 1])


@pytest.fixture
def base(film_path, tmp_path):
    """A base path of one's own with version 3, tag 0.75."""
    shutil.copytree(film_path / "3", tmp_path / "base" / "3")
    return tmp_path / "base"


@pytest.fixture
def model(base):
    served = ServedModel("film", str(base))
    served.poll()
    yield served
    served.close()


def test_only_numbered_folders_are_versions(tmp_path):
    for name in ("1", "00000012", "12", "-3", "4.tmp", "²", str(2**63)):
        (tmp_path / name).mkdir()
    (tmp_path / "5").touch()
    assert find_versions(str(tmp_path)) == {1: str(tmp_path / "1"), 12: str(tmp_path / "00000012")}


def test_a_newer_version_replaces_the_older_when_its_last_request_ends(model, base):
    export(base, 10, tag=0.875)
    with model.lease() as old:
        model.poll()
        assert ask(model) == (10, 0.875)
        assert model.states() == {3: State("UNLOADING"), 10: State("AVAILABLE")}
        with pytest.raises(ServingError, match=r"Specific\(film, 3\)"):
            ask(model, 3)
        inputs = {"text": np.array([b"fine"], object)}
        assert run(old, old.model.signatures["serving_default"], inputs)["label"][0] == b"good"
    assert model.states() == {3: State("END"), 10: State("AVAILABLE")}


def test_a_version_that_is_deleted_gives_way_to_an_older_one_but_not_to_none(model, base, log):
    export(base, 10, tag=0.875)
    model.poll()
    shutil.rmtree(base / "10")
    model.poll()
    assert ask(model) == (3, 0.75)
    shutil.rmtree(base / "3")
    for _ in range(3):
        model.poll()
    assert ask(model) == (3, 0.75)
    assert [line for line in log if "No version" in line] == [
        f"No versions of servable film found under base path {base}. Did you forget to name your leaf directory as a "
        "number (eg. '/1/')? Version 3 stays."
    ]


def test_a_base_path_that_is_something_else_is_explained_once(film_path, log):
    model = ServedModel("film", str(film_path / "3"))
    for _ in range(2):
        model.poll()
    model.close()
    assert [line for line in log if "No version" in line] == [
        f"No versions of servable film found under base path {film_path / '3'}, which is a version itself, with a "
        f"saved_model.pb; name the folder above, {film_path}. Nothing of film is served."
    ]


def test_what_folders_without_versions_are(film_path, tmp_path):
    assert explain_no_versions(str(tmp_path)) == ""
    for name in ("export", "other"):
        (tmp_path / name / "20").mkdir(parents=True)
    (tmp_path / "task.json").write_text("{}")
    assert explain_no_versions(str(tmp_path)).startswith("which is a model that was not exported; `bert-tf")
    (tmp_path / "export" / "20" / "saved_model.pb").write_bytes(b"")
    found = f"in which models have a folder each; name one of them, {tmp_path / 'export'}"
    assert explain_no_versions(str(tmp_path)) == found
    (tmp_path / "other" / "20" / "saved_model.pb").write_bytes(b"")
    assert explain_no_versions(str(tmp_path)) == f"{found} or {tmp_path / 'other'}"
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert explain_no_versions(str(tmp_path)).endswith(f"with a saved_model.pb; move what it holds to {tmp_path}/1")


def _without_graph(folder):
    (folder / "saved_model.pb").unlink()


def _with_garbage(folder):
    (folder / "saved_model.pb").write_bytes(b"\xff" * 100)


def _without_vocabulary(folder):
    (folder / "assets" / "vocab.txt").unlink()


def _with_bad_warmup(folder):
    shutil.rmtree(folder / "assets.extra", ignore_errors=True)
    write_warmup(folder)
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.write_bytes(file.read_bytes()[:-3])


BROKEN = {
    "truncated variables": (lambda folder: truncate(variables(folder)), "variables"),
    "no variables": (lambda folder: variables(folder).unlink(), "variables"),
    "no vocabulary": (_without_vocabulary, "vocab.txt is missing"),
    "no graph": (_without_graph, "SavedModel file does not exist"),
    "no graph in it": (_with_garbage, "Cannot parse file"),
    "truncated warm-up": (_with_bad_warmup, "truncated"),
    "too many warm-up requests": (
        lambda folder: (shutil.rmtree(folder / "assets.extra", ignore_errors=True), write_warmup(folder, 501)),
        "Number of warmup records exceeds the maximum (1000)",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_version_is_refused_in_one_line_until_it_changes(model, base, log, how):
    break_it, reason = BROKEN[how]
    folder = export(base, 4, tag=0.875)
    shutil.copytree(folder, base / "whole")
    break_it(folder)
    for _ in range(3):
        model.poll()
    (line,) = [line for line in log if "Refused" in line]
    assert line.startswith("Refused version 4 of film: ") and reason in line and "\n" not in line
    assert line.endswith(". Version 3 stays.")
    assert ask(model) == (3, 0.75)
    assert model.states()[4].name == "END" and model.states()[4].code and model.states()[4].message in line
    shutil.rmtree(folder)
    (base / "whole").rename(folder)
    model.poll()
    assert ask(model) == (4, 0.875)
    assert model.states() == {3: State("END"), 4: State("AVAILABLE")}


def test_a_server_that_starts_beside_a_broken_version_serves_the_one_before(base, log):
    truncate(variables(export(base, 4)))
    served = ServedModel("film", str(base))
    served.poll()
    assert ask(served) == (3, 0.75)
    assert [line for line in log if "Refused" in line][0].endswith("is served.")
    served.close()


def test_no_choice_of_outputs_and_no_signature_makes_a_graph_while_callers_wait(model):
    def prepared():
        return version.model.prepare.cache_info().misses

    with model.lease() as version:
        before = prepared()
        assert before == len([each for each in version.model.signatures.values() if each.outputs])
        good = {"text": np.array([b"fine"], object)}
        for aliases in (["label"], ["labels", "label"], ["label", "labels"], []):
            signature = version.model.signatures["serving_default"]
            assert list(run(version, signature, good, aliases)) == (aliases or list(signature.outputs))
        pair = {name: np.array([b"fine"], object) for name in ("text_a", "text_b")}
        assert run(version, version.model.signatures["pair"], pair)["label"][0] == b"good"
        assert prepared() == before


def test_the_graph_of_a_version_is_gone_with_it_without_the_garbage_collector(base):
    gc.collect()
    gc.disable()
    try:
        model = SavedModel(str(base / "3"))
        operations = [weakref.ref(each) for each in model._session.graph.get_operations()]
        model.close()
        del model
        assert operations and not [each for each in operations if each() is not None]
    finally:
        gc.enable()


def test_no_version_at_all(tmp_path):
    served = ServedModel("film", str(tmp_path))
    served.poll()
    with pytest.raises(ServingError, match=r"Servable not found for request: Latest\(film\)"):
        ask(served)
    assert Catalog([served]).states("film") == {}


def _resident_megabytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def _swap_under_load(base, swaps, pause, **options):
    """Publishes versions 4, 5, ... while threads ask over gRPC and REST; returns (answers, failures, versions seen)."""
    done, answers, failures, seen = threading.Event(), [], [], set()

    def over_grpc(client):
        found = client.predict({"text": ["fine"]})["probabilities"][0]
        seen.add(round(float(found[1]), 4))
        np.testing.assert_allclose(found, expected(found[1], True))

    def over_rest(url):
        with urllib.request.urlopen(url, b'{"instances": ["fine"]}', timeout=60) as response:
            assert response.read().startswith(b'{\n    "predictions"')

    def load(call, *arguments):
        while not done.is_set():
            try:
                call(*arguments)
                answers.append(1)
            except Exception as error:
                failures.append(error)

    with (
        serve(str(base), "film", poll_seconds=0.05, **options) as server,
        Client(f"localhost:{server.port}", "film") as client,
    ):
        url = f"http://localhost:{server.rest_port}/v1/models/film:predict"
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(load, over_grpc, client) for _ in range(2)] + [pool.submit(load, over_rest, url)]
            for i in range(swaps):
                (base / f"next-{i}").rename(base / str(4 + i))
                deadline = time.monotonic() + 60
                while round(0.6 + i * 0.01, 4) not in seen and time.monotonic() < deadline:
                    time.sleep(pause)
            done.set()
        for job in jobs:
            job.result()
    return len(answers), failures, seen


def _prepare(base, swaps, ballast):
    for i in range(swaps):
        export(base, 1000 + i, tag=0.6 + i * 0.01, ballast=ballast).rename(base / f"next-{i}")
    tf.keras.backend.clear_session()


@pytest.mark.parametrize(
    "batching", [pytest.param(None, marks=pytest.mark.slow, id="alone"), pytest.param(Batching(), id="in batches")]
)
def test_no_request_is_lost_in_three_swaps(base, batching):
    _prepare(base, 3, 1)
    answers, failures, seen = _swap_under_load(base, 3, 0.02, batching=batching)
    assert not failures and answers > 20
    assert {0.6, 0.61, 0.62} <= seen <= {0.75, 0.6, 0.61, 0.62}


@pytest.mark.slow
def test_no_request_is_lost_in_twenty_swaps_and_no_memory(base):
    _prepare(base, 20, 20000)  # 20 MB each
    before = _resident_megabytes()
    answers, failures, seen = _swap_under_load(base, 20, 0.2)
    assert not failures and answers > 200
    assert {round(0.6 + i * 0.01, 4) for i in range(20)} <= seen
    assert _resident_megabytes() - before < 150  # of 400 MB that went through
