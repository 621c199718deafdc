"""Requests to reload the config: who may make them, which models they may name, and who waits for them."""

import dataclasses
import os
import shutil
import threading
import time
from concurrent import futures

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2, model_service_pb2_grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import config_reload, saved_model, versions
from bert_tf.serving.server.config_reload import ReloadRules, reload
from bert_tf.serving.server.model_config import ModelConfig
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.version_policy import ALL
from bert_tf.serving.server.versions import State
from tests.serving.models import QUICK, export, serve_quickly


@pytest.fixture(scope="module")
def folder(film_path, tmp_path_factory):
    """A folder of the base paths "films" with versions 3 and 4, and "others" with 3."""
    base = tmp_path_factory.mktemp("models")
    for name in ("films", "others"):
        shutil.copytree(film_path / "3", base / name / "3")
    export(base / "films", 4, tag=0.625)
    return base


@pytest.fixture
def registry(folder):
    """It serves version 4 of "films", and lets callers reload what is in the folder."""
    found = ModelRegistry(loading=QUICK, reload_rules=ReloadRules(True, (str(folder),)))
    found.apply([ModelConfig("films", str(folder / "films"))])
    yield found
    found.close()


def entry(name, path, more=""):
    return f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" {more} }}'


def request(*entries):
    text = f"config {{ model_config_list {{ {' '.join(entries)} }} }}"
    return text_format.Parse(text, model_management_pb2.ReloadConfigRequest())


CALL = RequestContext(peer="ipv4:1.2.3.4:5")


def refused(registry, asked, call=CALL):
    """Returns (code, message) of the ServingError with which a request to reload ends."""
    with pytest.raises(ServingError) as caught:
        reload(registry, asked, call)
    return caught.value.code, caught.value.message


def serves(registry):
    return {
        name: sorted(number for number, state in registry.states(name).items() if state == State("AVAILABLE"))
        for name in registry.names()
    }


def test_it_is_applied_and_logged_with_its_sender_and_what_it_changes(registry, folder, log):
    registry._loading = versions.EACH_ALONE  # with the warm-up, which is counted
    asked = request(entry("others", folder / "others"))
    asked.metric_names.extend(["/tensorflow/serving/model_warmup_latency", "/tensorflow/none"])
    response = reload(registry, asked, CALL)
    assert response.status.error_code == 0
    assert {each.name: each.int64_value_increase for each in response.metric} == {
        "/tensorflow/serving/model_warmup_latency": 1, "/tensorflow/none": 0
    }  # fmt: skip
    assert serves(registry) == {"others": [3]}
    assert [line for line in log if "eload" in line] == [
        f"Reload of the config from ipv4:1.2.3.4:5: loads 'others' from '{folder / 'others'}'; removes 'films'.",
        "Applied the config reload from ipv4:1.2.3.4:5.",
    ]


def test_without_a_list_of_models_or_with_too_many_metrics_nothing_changes(registry):
    code, message = refused(registry, model_management_pb2.ReloadConfigRequest())
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "Only ModelConfigList is currently supported" in message
    asked = request()
    asked.metric_names.extend(["/tensorflow/none"] * 101)
    assert refused(registry, asked)[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert serves(registry) == {"films": [4]}


def test_a_base_path_elsewhere_is_refused_also_by_a_link_and_nothing_is_read_there(registry, folder, film_path, log):
    link = folder / "link"
    link.symlink_to(film_path)
    try:
        for path in (film_path, "/proc", link, f"{folder}/../{film_path.name}", f"{folder}-more"):
            code, message = refused(registry, request(entry("films", path)))
            assert code == grpc.StatusCode.PERMISSION_DENIED
            assert message.startswith("The base path of model films must be under the base paths")
            assert "`model_config_reload_base_paths`" in message
    finally:
        link.unlink()
    assert serves(registry) == {"films": [4]}
    refusals = [line for line in log if "from ipv4:1.2.3.4:5 changed nothing: The base path of model films" in line]
    assert len(refusals) == 5


def test_the_folders_of_the_start(folder, tmp_path):
    films, others = (ModelConfig(name, str(folder / name)) for name in ("films", "others"))
    assert ReloadRules.of(True, [films]).folders == (films.base_path,)
    assert ReloadRules.of(True, [films, others]).folders == (films.base_path, others.base_path, str(folder))
    far = ModelConfig("far", str(tmp_path / "far"))
    assert ReloadRules.of(True, [films, far], ["/srv"]).folders == (films.base_path, far.base_path, "/srv")
    at_the_root = [ModelConfig("a", "/a"), ModelConfig("b", "/b")]
    assert ReloadRules.of(True, at_the_root).folders == ("/a", "/b")


@pytest.fixture
def slow(monkeypatch, folder):
    """(event that "others" is being loaded, event that lets it go on)."""
    entered, go_on, load = threading.Event(), threading.Event(), saved_model.SavedModel

    def later(path, bundle):
        if path.startswith(str(folder / "others")):
            entered.set()
            assert go_on.wait(60)
        return load(path, bundle)

    monkeypatch.setattr(saved_model, "SavedModel", later)
    yield entered, go_on
    go_on.set()


def test_while_one_config_is_loaded_status_polling_and_other_configs_go_on(registry, folder, slow):
    entered, go_on = slow
    both = request(entry("films", folder / "films"), entry("others", folder / "others"))
    failures = []
    thread = threading.Thread(target=lambda: failures.append(refused(registry, both)))
    thread.start()
    assert entered.wait(60)
    assert serves(registry) == {"films": [4]}
    registry.poll()
    reload(registry, request(entry("films", folder / "films", "model_version_policy { all {} }")), RequestContext())
    assert serves(registry) == {"films": [3, 4]}
    registry.poll()
    assert serves(registry) == {"films": [3, 4]}
    go_on.set()
    thread.join(60)
    (failure,) = failures
    assert failure == (
        grpc.StatusCode.ABORTED, "Another config was applied while the models of this one were loaded"
    )  # fmt: skip
    assert serves(registry) == {"films": [3, 4]}


def test_a_config_whose_caller_has_left_changes_nothing(registry, folder, slow):
    entered, go_on = slow
    gone = threading.Event()
    asked = request(entry("others", folder / "others"))
    failures = []
    context = RequestContext(is_gone=gone.is_set)
    thread = threading.Thread(target=lambda: failures.append(refused(registry, asked, context)))
    thread.start()
    assert entered.wait(60)
    gone.set()
    go_on.set()
    thread.join(60)
    assert failures == [(grpc.StatusCode.CANCELLED, "The client disconnected")]
    assert serves(registry) == {"films": [4]}


def test_a_deadline_ends_the_wait_for_a_model_that_another_loads(registry, folder, slow):
    entered, go_on = slow
    model = registry._served.models["films"]
    with model._turn:
        began = time.monotonic()
        code, _ = refused(registry, request(entry("films", folder / "films")), RequestContext(deadline=began + 0.1))
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED and time.monotonic() - began < 30
        registry.poll()  # it does not wait
    assert serves(registry) == {"films": [4]}


def test_versions_that_were_loaded_for_nothing_are_unloaded(registry, folder):
    everything = 'model_version_policy { all {} } version_labels { key: "no" value: 9 }'
    code, _ = refused(registry, request(entry("films", folder / "films", everything)))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert serves(registry) == {"films": [4]}


@pytest.mark.slow
def test_where_one_model_fails_what_another_thread_loads_is_waited_for_and_taken_back(folder, slow):
    entered, go_on = slow
    films, others = (ModelConfig(name, str(folder / name)) for name in ("films", "others"))
    with futures.ThreadPoolExecutor(2) as pool:
        loading = dataclasses.replace(QUICK, load_pool=pool)
        registry = ModelRegistry((), loading, reload_rules=ReloadRules(True, (str(folder),)))
        registry.apply([films])
        with registry._served.models["films"]._turn:  # so that its part ends by the deadline
            asked = request(entry("films", films.base_path), entry("others", others.base_path))
            call = RequestContext(deadline=time.monotonic() + 0.3)
            ends = []
            thread = threading.Thread(target=lambda: ends.append(refused(registry, asked, call)[0]))
            thread.start()
            assert entered.wait(60)
            thread.join(1)
            assert thread.is_alive()
            go_on.set()
            thread.join(60)
        assert ends == [grpc.StatusCode.DEADLINE_EXCEEDED]
        assert serves(registry) == {"films": [4]}
        registry.close()


def test_polling_unloads_nothing_that_a_config_still_needs(registry):
    model = registry._served.models["films"]
    with model.hold():
        assert model.load(ALL) == {3, 4}
        registry.poll()
        assert model.available() == {3, 4}
    registry.poll()
    assert model.available() == {4}


def test_a_version_that_is_loaded_into_a_closed_model_is_freed(folder):
    model = versions.ServedModel("films", str(folder / "films"), loading=QUICK)
    model.close()
    assert model.load(ALL) == set() and model.available() == set()
    assert model.states() == {3: State("END"), 4: State("END")}


def test_no_more_than_a_few_wait(folder, slow):
    entered, go_on = slow
    registry = ModelRegistry(loading=QUICK, reload_rules=ReloadRules(True, (str(folder),)))
    asked = request(entry("others", folder / "others"))
    ends = []
    threads = [threading.Thread(target=_end, args=[registry, asked, ends]) for _ in range(config_reload._MOST)]
    for thread in threads:
        thread.start()
    assert entered.wait(60)
    while registry.reload_rules.turns.acquire(blocking=False):
        registry.reload_rules.turns.release()
        time.sleep(0.01)
    code, message = refused(registry, asked)
    assert code == grpc.StatusCode.UNAVAILABLE and message.endswith("try again later")
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert sorted(ends) == ["ABORTED"] * (config_reload._MOST - 1) + ["OK"]
    assert serves(registry) == {"others": [3]}
    registry.close()


def _end(registry, asked, ends):
    try:
        reload(registry, asked, RequestContext())
        ends.append("OK")
    except ServingError as error:
        ends.append(error.code.name)


def _ask(server, asked, timeout=60):
    with grpc.insecure_channel(f"localhost:{server.port}") as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        try:
            code = stub.HandleReloadConfigRequest(asked, timeout=timeout).status.error_code
            return code, ""
        except grpc.RpcError as error:
            return error.code(), error.details()


def test_a_server_of_one_model_offers_it_only_by_its_flag(folder, log):
    asked = request(entry("films", folder / "films"), entry("others", folder / "others"))
    with serve_quickly(folder / "films", "films", rest_api_port=None) as server:
        code, message = _ask(server, asked)
        assert code == grpc.StatusCode.PERMISSION_DENIED and "`enable_model_config_reload`" in message
    assert any(line.startswith("Rejected a config reload from ipv") for line in log)
    options = {"enable_model_config_reload": True, "model_config_reload_base_paths": (str(folder),)}
    with serve_quickly(folder / "films", "films", rest_api_port=None, **options) as server:
        assert _ask(server, asked) == (0, "")
        assert _ask(server, asked, timeout=None) == (0, "")
        assert any(line.startswith("Reload of the config from ipv") and "'others'" in line for line in log)


def test_a_server_with_a_config_file_offers_it_unless_that_is_turned_off(folder, tmp_path):
    path = tmp_path / "models.config"
    path.write_text(f"model_config_list {{ {entry('films', folder / 'films')} }}")
    asked = request(entry("films", folder / "films"))
    for given, code in ((None, 0), (False, grpc.StatusCode.PERMISSION_DENIED)):
        options = {"model_config_file": str(path), "enable_model_config_reload": given, "bundle": QUICK.bundle}
        with serve(rest_api_port=None, poll_seconds=0, **options) as server:
            assert _ask(server, asked)[0] == code


def test_a_base_path_of_processes_and_one_with_a_pipe_are_answered_soon_and_predictions_go_on(folder, tmp_path):
    (tmp_path / "pipe" / "1").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe" / "1" / "saved_model.pb")
    options = {"enable_model_config_reload": True, "model_config_reload_base_paths": ("/",)}
    with serve_quickly(folder / "films", "films", rest_api_port=None, **options) as server:
        for path in ("/proc", tmp_path / "pipe"):
            asked = request(entry("films", folder / "films"), entry("strange", path))
            began = time.monotonic()
            code, message = _ask(server, asked)
            assert code == grpc.StatusCode.UNAVAILABLE and "did not become available: {strange}" in message
            assert time.monotonic() - began < 30
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            status = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "films"})
            found = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status).model_version_status
            assert [each.version for each in found] == [4]
