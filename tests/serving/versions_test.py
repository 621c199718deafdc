"""Versions: which is served, what happens to a broken one, and that no request is lost in an exchange."""

import concurrent.futures
import dataclasses
import errno
import gc
import itertools
import os
import shutil
import socket
import threading
import time
import urllib.request
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.serving.client.client import Client
from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import regular_files, version_folders, versions, warmup
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.regular_files import check_stored_files, files_under
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.version_folders import explain_no_versions, find_versions
from bert_tf.serving.server.version_policy import LATEST
from bert_tf.serving.server.versions import Loading, ServedModel, State
from tests.serving.models import QUICK, expected, export, truncate, variables, write_warmup


def ask(model, number=None):
    """Returns (version that answered, probability of "good" for a good text)."""
    with model.lease(number) as version:
        inputs = {"text": np.array([b"fine"], object)}
        outputs = run_predict(version, version.model.signatures["serving_default"], inputs, ["probabilities"])
        return version.number, float(outputs["probabilities"][0, 1])


@pytest.fixture
def base(film_path, tmp_path):
    """A base path of one's own with version 3, tag 0.75."""
    shutil.copytree(film_path / "3", tmp_path / "base" / "3")
    return tmp_path / "base"


@pytest.fixture
def model(base):
    served = ServedModel("film", str(base), loading=QUICK)
    served.poll()
    yield served
    served.close()


@pytest.fixture
def warm(base):
    """The same with its warm-up."""
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
        assert run_predict(old, old.model.signatures["serving_default"], inputs)["label"][0] == b"good"
    assert model.states() == {3: State("END"), 10: State("AVAILABLE")}


def test_a_busy_server_loads_and_warms_a_version(base):
    scheduler = Scheduler(max_pending_tokens=1)
    model = ServedModel("film", str(base), loading=Loading(scheduler=scheduler))
    with scheduler.requests.take(10):
        model.poll()
        assert model.states() == {3: State("AVAILABLE")}
    model.close()


def test_a_version_that_is_served_again_stays_so_when_its_last_request_of_before_ends(model, base):
    export(base, 10, tag=0.875)
    with model.lease():
        model.poll()
        shutil.rmtree(base / "10")
        model.poll()
        assert ask(model) == (3, 0.75)
    assert model.states()[3] == State("AVAILABLE") and ask(model) == (3, 0.75)


def test_the_previous_version_is_kept_for_a_rollback(base, log):
    model = ServedModel("film", str(base), loading=dataclasses.replace(QUICK, keep_previous_version=True))
    for number in (3, 10, 11):
        if number > 3:
            export(base, number, tag=number / 16)
        model.poll()
    assert ask(model) == (11, 11 / 16) and ask(model, 10) == (10, 10 / 16) and model.available() == {10, 11}
    assert model.states()[3] == State("END"), "of those before, only one"
    model.settle(LATEST, {11})  # as a new config does
    assert model.available() == {10, 11}
    loaded = len([line for line in log if "Serving version" in line])
    shutil.rmtree(base / "11")
    model.poll()
    assert ask(model) == (10, 10 / 16) and model.available() == {10}
    assert len([line for line in log if "Serving version" in line]) == loaded == 3, "nothing is loaded again"
    export(base, 11, tag=0.75)
    model.poll()
    shutil.rmtree(base / "10")
    model.poll()
    assert model.available() == {11}, "a version without a directory is none to roll back to"
    model.close()


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
        "number (eg. '/1/')? Version 3 is still served."
    ]


def test_a_base_path_that_is_something_else_is_explained_once(film_path, log):
    model = ServedModel("film", str(film_path / "3"))
    for _ in range(2):
        model.poll()
    model.close()
    assert [line for line in log if "No version" in line] == [
        f"No versions of servable film found under base path {film_path / '3'}, which is a version itself, with a "
        f"saved_model.pb; use its parent directory, {film_path}. No version of film is served."
    ]


def test_a_folder_without_versions_is_explained(film_path, tmp_path):
    assert explain_no_versions(str(tmp_path)) == ""
    for name in ("export", "other"):
        (tmp_path / name / "20").mkdir(parents=True)
    (tmp_path / "task.json").write_text("{}")
    assert explain_no_versions(str(tmp_path)).startswith("which is a model that was not exported")
    (tmp_path / "export" / "20" / "saved_model.pb").write_bytes(b"")
    found = f"which has one directory per model; use one of them, {tmp_path / 'export'}"
    assert explain_no_versions(str(tmp_path)) == found
    (tmp_path / "other" / "20" / "saved_model.pb").write_bytes(b"")
    assert explain_no_versions(str(tmp_path)) == f"{found} or {tmp_path / 'other'}"
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert explain_no_versions(str(tmp_path)).endswith(f"with a saved_model.pb; move its contents to {tmp_path}/1")


def _without_graph(folder):
    (folder / "saved_model.pb").unlink()


def _with_garbage(folder):
    (folder / "saved_model.pb").write_bytes(b"\xff" * 100)


def _link_to_itself_inside(folder):
    _without_graph(folder)
    (folder / "saved_model.pb").symlink_to(folder / "saved_model.pb")


def _not_utf8(folder):
    _with_garbage(folder)
    (folder / "assets" / os.fsdecode(b"\xff\xfe")).write_bytes(b"")


def _link_to(target):
    """Returns what puts a link in the place of a version."""

    def make(folder):
        shutil.rmtree(folder)
        folder.symlink_to(target(folder))

    return make


def _under_a_file(folder):
    (folder.parent / "file").touch()
    return folder.parent / "file" / "version"


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
    "ELOOP": (_link_to(lambda folder: folder), "Too many levels of symbolic links"),
    "ENOTDIR": (_link_to(_under_a_file), "Not a directory"),
    "ENAMETOOLONG": (_link_to(lambda folder: "x" * 300), "File name too long"),
    "ELOOP inside": (_link_to_itself_inside, "Too many levels of symbolic links"),
    "no UTF-8": (_not_utf8, "Cannot parse file"),
}
BROKEN_WARM_UPS = {
    "truncated": (_with_bad_warmup, "truncated"),
    "too many requests": (
        lambda folder: (shutil.rmtree(folder / "assets.extra", ignore_errors=True), write_warmup(folder, 3)),
        "Number of warmup records exceeds the maximum (5)",
    ),
}


def _break(base, broken):
    """Puts versions from 4 on under `base`, each broken in its way; returns {version: why it is refused}."""
    for number, (break_it, _) in enumerate(broken.values(), start=4):
        break_it(export(base, number, tag=0.875))
    return {number: reason for number, (_, reason) in enumerate(broken.values(), start=4)}


def _check_refused(name, states, reasons, log):
    """Each was refused in one line, however often it was looked at, and version 3 stays."""
    assert states[3] == State("AVAILABLE")
    refused = [line for line in log if "Rejected" in line]
    assert len(refused) == len(reasons)
    for number, reason in reasons.items():
        assert states[number].name == "END" and states[number].code and reason in states[number].message
        (line,) = [line for line in refused if line.startswith(f"Rejected version {number} of {name}: ")]
        assert states[number].message in line and "\n" not in line and line.endswith(". Version 3 is still served.")


def _repair(base, number):
    (base / str(number)).rename(base / f"bad-{number}")
    export(base, number, tag=0.625)


@pytest.mark.slow
def test_a_broken_version_is_its_own_error_until_it_changes_and_other_models_go_on(two, base, log):
    reasons = _break(base, BROKEN)
    two.poll()
    export(base.parent / "good", 8, tag=0.875)
    two.poll(), two.poll()
    assert {number: state.name for number, state in two.states("good").items()} == {3: "END", 8: "AVAILABLE"}
    _check_refused("bad", two.states("bad"), reasons, log)
    for number in reasons:
        _repair(base, number)
        two.poll()
        assert two.states("bad")[number] == State("AVAILABLE")


def test_a_version_with_a_broken_warm_up_is_refused_until_it_changes(warm, base, log, monkeypatch):
    assert warmup._MOST == 1000
    monkeypatch.setattr(warmup, "_MOST", 5)
    reasons = _break(base, BROKEN_WARM_UPS)
    for _ in range(3):
        warm.poll()
    _check_refused("film", warm.states(), reasons, log)
    assert ask(warm) == (3, 0.75)
    _repair(base, 5)
    warm.poll()
    assert ask(warm) == (5, 0.625) and warm.states()[3] == State("END")


def test_a_server_that_starts_beside_a_broken_version_serves_the_one_before(base, log):
    truncate(variables(export(base, 4)))
    served = ServedModel("film", str(base), loading=QUICK)
    served.poll()
    assert ask(served) == (3, 0.75)
    assert [line for line in log if "Rejected" in line][0].endswith("is served.")
    served.close()


def test_no_choice_of_outputs_and_no_signature_makes_a_graph_while_callers_wait(warm):
    def prepared():
        return version.model.prepare.cache_info().misses

    with warm.lease() as version:
        before = prepared()
        assert before == len([each for each in version.model.signatures.values() if each.outputs])
        good = {"text": np.array([b"fine"], object)}
        for aliases in (["label"], ["labels", "label"], ["label", "labels"], []):
            signature = version.model.signatures["serving_default"]
            assert list(run_predict(version, signature, good, aliases)) == (aliases or list(signature.outputs))
        pair = {name: np.array([b"fine"], object) for name in ("text_a", "text_b")}
        assert run_predict(version, version.model.signatures["pair"], pair)["label"][0] == b"good"
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
    assert ModelRegistry([served]).states("film") == {}


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
    "batching",
    [pytest.param(None, marks=pytest.mark.slow, id="alone"), pytest.param(BatchingLimits(), id="in batches")],
)
def test_no_request_is_lost_in_three_swaps(base, batching):
    _prepare(base, 3, 1)
    answers, failures, seen = _swap_under_load(base, 3, 0.02, batching=batching, bundle=QUICK.bundle)
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


@pytest.fixture
def two(base, film_path):
    """A registry of "bad" with version 3 under `base`, and "good" with version 3 and room for more."""
    good = base.parent / "good"
    shutil.copytree(film_path / "3", good / "3")
    models = [ServedModel(name, str(path), loading=QUICK) for name, path in (("bad", base), ("good", good))]
    registry = ModelRegistry(models)
    registry.poll()
    yield registry
    registry.close()


def test_errors_of_a_disk_neither_end_polling_nor_unload_what_is_served(two, base, log, monkeypatch):
    two.poll()
    stat = os.stat

    def failing(path, *args, **kwargs):
        if str(path).startswith(str(base / "3")):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return stat(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", failing)
    export(base.parent / "good", 8, tag=0.875)
    two.poll()
    assert two.states("bad") == {3: State("AVAILABLE")} and two.states("good")[8] == State("AVAILABLE")
    assert not [line for line in log if "Rejected" in line]


def test_a_fault_in_one_model_is_logged_once_and_the_others_are_polled(two, log, monkeypatch):
    load = ServedModel._load_wanted

    def fail(model, *args):
        if model.name == "bad":
            raise RuntimeError("a fault")
        return load(model, *args)

    monkeypatch.setattr(ServedModel, "_load_wanted", fail)
    for _ in range(3):
        two.poll()
    assert two.states("good") == {3: State("AVAILABLE")}
    assert [line for line in log if "failed" in line] == [
        "Checking for versions of bad failed. Version 3 is still served."
    ]


def test_a_version_that_vanishes_after_the_listing_is_refused_alone(two, base, monkeypatch):
    export(base, 9, tag=0.875)
    find = versions.find_versions

    def find_and_lose(path):
        found = find(path)
        if path == str(base) and (base / "9").exists():
            shutil.rmtree(base / "9")
        return found

    monkeypatch.setattr(versions, "find_versions", find_and_lose)
    two.poll(), two.poll()
    assert two.states("bad")[9].name == "END" and two.states("bad")[3] == State("AVAILABLE")
    assert two.states("good") == {3: State("AVAILABLE")}


STORED = (
    "saved_model.pb", "assets/vocab.txt", "variables/variables.index", "assets.extra/tf_serving_warmup_requests",
    "batching_params.pbtxt",
)  # fmt: skip
NOT_STORED = {"pipe": "a named pipe", "device": "a device", "socket": "a socket"}


def test_a_file_that_is_not_stored_is_refused_before_it_is_opened(model, base, monkeypatch):
    wrong = {}
    for number, (file, kind) in enumerate(itertools.product(STORED, NOT_STORED), start=4):
        path = export(base, number, tag=0.875) / file
        wrong[number] = f"{path} is {NOT_STORED[kind]}, and only regular files are read"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            with socket.socket(socket.AF_UNIX) as listening:
                monkeypatch.chdir(path.parent)  # a socket's path has a bound
                listening.bind(path.name)
    model.poll()
    assert ask(model) == (3, 0.75)
    assert {number: model.states()[number].message for number in wrong} == wrong


def test_an_asset_outside_of_the_folder_is_none_that_waits_either(model, base):
    folder = export(base, 4, tag=0.875)
    os.mkfifo(base / "pipe")
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph.meta_graphs[0].asset_file_def[0].filename = "../../pipe"
    (folder / "saved_model.pb").write_bytes(graph.SerializeToString())
    model.poll()
    assert ask(model) == (3, 0.75)
    assert model.states()[4].message == f"{folder}/assets/../../pipe is a named pipe, and only regular files are read"


def test_a_folder_without_a_graph_is_not_searched_and_one_with_far_too_many_files_is_refused(tmp_path, monkeypatch):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "a").touch()
    (tmp_path / "other").touch()
    assert [path for path, _ in files_under(str(tmp_path))] == [str(tmp_path / "other")]
    (tmp_path / "saved_model.pb").touch()
    assert len(list(files_under(str(tmp_path)))) == 3
    monkeypatch.setattr(regular_files, "_MOST_FILES", 2)
    with pytest.raises(ValueError, match="has more than 2 files"):
        check_stored_files(str(tmp_path))


def test_a_base_path_with_far_too_many_names_is_said_once(tmp_path, log, monkeypatch):
    monkeypatch.setattr(version_folders, "_MOST_NAMES", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    served = ServedModel("film", str(tmp_path))
    served.poll(), served.poll()
    (line,) = [line for line in log if "No version of film" in line]
    assert "More than 3 names" in line
