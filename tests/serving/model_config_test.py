"""Several models: what a config may say, how it is exchanged, and which version a request reaches."""

import contextlib
import json
import shutil
import threading
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2, model_pb2, predict_pb2
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import saved_model, versions
from bert_tf.serving.server.model_config import ConfigFile, ModelConfig, read_configs, read_model_config
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.version_policy import ALL, Policy
from bert_tf.serving.server.versions import Loading, State
from tests.serving.models import QUICK, export, truncate, variables
from tests.serving.server_process import wait_for


@pytest.fixture(scope="module")
def folders(film_path, tmp_path_factory):
    """Base paths "films" with versions 3 (tag 0.75), 4 (0.625) and 5 (0.875), and "others" with 3."""
    base = tmp_path_factory.mktemp("models")
    for name in ("films", "others"):
        shutil.copytree(film_path / "3", base / name / "3")
    export(base / "films", 4, tag=0.625)
    export(base / "films", 5, tag=0.875)
    return base


@pytest.fixture
def registry():
    found = ModelRegistry(loading=QUICK)
    yield found
    found.close()


def config(text):
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


def entry(name, path, more=""):
    return f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" {more} }}'


def models(*entries):
    return f"model_config_list {{ {' '.join(entries)} }}"


def ask(registry, name="films", **choice):
    """Returns (version that answered, probability of "good" for a good text)."""
    spec = model_pb2.ModelSpec(name=name)
    if "label" in choice:
        spec.version_label = choice["label"]
    if "version" in choice:
        spec.version.value = choice["version"]
    with registry.lease(spec) as version:
        signature = version.model.signatures["serving_default"]
        outputs = run_predict(version, signature, {"text": np.array([b"fine"], object)}, ["probabilities"])
        return version.number, float(outputs["probabilities"][0, 1])


def available(registry, name="films"):
    return sorted(number for number, state in registry.states(name).items() if state == State("AVAILABLE"))


@contextlib.contextmanager
def refused(code, message):
    with pytest.raises(ServingError, match=message) as caught:
        yield
    assert caught.value.code == getattr(grpc.StatusCode, code)


def test_a_config_file_lists_models_policies_and_labels():
    text = models(
        entry("one", "/one"),
        entry("two", "/two", 'model_version_policy { all {} } version_labels { key: "stable" value: 7 }'),
        entry("three", "/three", "model_version_policy { latest { num_versions: 2 } }"),
        entry("four", "/four", "model_version_policy { specific { versions: 1 versions: 5 } }"),
        'config { name: "five" base_path: "/five" model_type: TENSORFLOW }',
    )
    assert read_configs(config(text)) == [
        ModelConfig("one", "/one", Policy(newest=1)),
        ModelConfig("two", "/two", ALL, {"stable": 7}),
        ModelConfig("three", "/three", Policy(newest=2)),
        ModelConfig("four", "/four", Policy(versions=frozenset({1, 5}))),
        ModelConfig("five", "/five"),
    ]


BAD = {
    "relative": (entry("a", "films"), "Expected model a to have an absolute path or URI; got base_path\\(\\)=films"),
    "twice": (entry("a", "/a") + entry("a", "/b"), "Illegal to list model a multiple times in config list"),
    "no platform": (
        'config { name: "a" base_path: "/a" }',
        r"Illegal setting neither ModelServerConfig::model_type \(deprecated\) nor ModelServerConfig::model_platform, "
        "model name is a",
    ),
    "two platforms": (
        entry("a", "/a", "model_type: TENSORFLOW"),
        r"Illegal setting both ModelServerConfig::model_type \(deprecated\) and ModelServerConfig::model_platform, "
        "model name is a",
    ),
    "other type": (
        'config { name: "a" base_path: "/a" model_type: OTHER }', "ModelServerConfig::model_type choice 2 not supported"
    ),
    "other platform": (
        'config { name: "a" base_path: "/a" model_platform: "torch" }', "Model a requests unsupported platform torch"
    ),
    "no name": (entry("", "/a"), "a model without a name"),
    "no versions": (entry("a", "/a", "model_version_policy { specific {} }"), "policy of model a lists no versions"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_config_that_cannot_be_served(tmp_path, case):
    text, message = BAD[case]
    with pytest.raises(ServingError, match=message):
        read_configs(config(models(text)))
    (tmp_path / "models.config").write_text(models(text))
    with pytest.raises(ValueError, match=f"`model_config_file` must be .*models.config: .*{message}"):
        read_model_config(str(tmp_path / "models.config"))


def test_a_file_that_is_no_config(tmp_path):
    (tmp_path / "models.config").write_text("models { }")
    words = "Error parsing text-format tensorflow.serving.ModelServerConfig: 1:1 : "
    with pytest.raises(ValueError, match=f"`model_config_file` must be a ModelServerConfig .* Cannot use .*: {words}"):
        read_model_config(str(tmp_path / "models.config"))


def test_policies_and_labels_lead_to_versions(registry, folders):
    films = str(folders / "films")
    registry.apply([
        ModelConfig("films", films, Policy(newest=2), {"stable": 4, "canary": 5}),
        ModelConfig("others", str(folders / "others")),
    ])  # fmt: skip
    assert available(registry) == [4, 5] and available(registry, "others") == [3]
    assert ask(registry) == (5, 0.875) and ask(registry, version=4) == ask(registry, label="stable") == (4, 0.625)
    with refused("INVALID_ARGUMENT", "Unrecognized servable version label: beta"):
        ask(registry, label="beta")
    with refused("INVALID_ARGUMENT", "Unrecognized servable version label: stable"):
        ask(registry, "others", label="stable")
    with refused("NOT_FOUND", r"Specific\(films, 3\)"):
        ask(registry, version=3)
    registry.apply([ModelConfig("films", films, ALL, {"stable": 5})])
    assert available(registry) == [3, 4, 5] and ask(registry, label="stable") == (5, 0.875)
    with refused("NOT_FOUND", r"Latest\(others\)"):
        ask(registry, "others")
    registry.apply([ModelConfig("films", films, Policy(versions=frozenset({3, 9})))])
    assert available(registry) == [3] and ask(registry) == (3, 0.75)


def test_a_label_needs_a_version_that_is_served_unless_it_is_new_and_may_point_ahead(folders):
    films = str(folders / "films")
    message = "Request to assign label to version 9 of model films, which is not currently available for inference"
    strict, lenient = ModelRegistry(loading=QUICK), ModelRegistry(loading=QUICK, allow_labels_for_unavailable=True)
    for registry in (strict, lenient):
        registry.apply([ModelConfig("films", films, labels={"old": 5})])
        with refused("FAILED_PRECONDITION", message):
            registry.apply([ModelConfig("films", films, labels={"old": 9})])
        assert ask(registry, label="old") == (5, 0.875)
    with refused("FAILED_PRECONDITION", message):
        strict.apply([ModelConfig("films", films, labels={"new": 9})])
    lenient.apply([ModelConfig("films", films, labels={"new": 9})])
    with refused("NOT_FOUND", r"Specific\(films, 9\)"):
        ask(lenient, label="new")
    strict.close()
    lenient.close()


def test_a_config_that_cannot_be_loaded_changes_nothing(registry, folders, tmp_path):
    films = str(folders / "films")
    before = ModelConfig("films", films, labels={"stable": 5})
    registry.apply([before])
    truncate(variables(shutil.copytree(folders / "films" / "3", tmp_path / "broken" / "1")))
    for bad in (ModelConfig("broken", str(tmp_path / "broken")), ModelConfig("absent", str(tmp_path / "absent"))):
        with refused("UNAVAILABLE", f"Some models did not become available: {{{bad.name}}}"):
            registry.apply([ModelConfig("films", films, ALL), bad])
        assert registry.names() == ["films"] and available(registry) == [5]
        assert ask(registry, label="stable") == (5, 0.875)
    with refused("UNAVAILABLE", "did not become available: {films}"):
        registry.apply([ModelConfig("films", films, Policy(versions=frozenset({9})))])
    assert ask(registry) == (5, 0.875)


def test_others_answer_while_a_model_is_loaded(registry, folders, monkeypatch):
    registry.apply([ModelConfig("others", str(folders / "others"))])
    entered, go_on, load = threading.Event(), threading.Event(), saved_model.SavedModel

    def slow(folder, bundle):
        entered.set()
        assert go_on.wait(20)
        return load(folder, bundle)

    monkeypatch.setattr(saved_model, "SavedModel", slow)
    both = [ModelConfig("others", str(folders / "others")), ModelConfig("films", str(folders / "films"))]
    thread = threading.Thread(target=registry.apply, args=[both])
    thread.start()
    assert entered.wait(60)
    assert ask(registry, "others") == (3, 0.75)
    with refused("NOT_FOUND", r"Latest\(films\)"):
        ask(registry)
    go_on.set()
    thread.join()
    assert ask(registry) == (5, 0.875)


def test_a_model_that_is_taken_out_ends_with_its_last_request(registry, folders):
    registry.apply([ModelConfig("films", str(folders / "films")), ModelConfig("others", str(folders / "others"))])
    with registry.lease(model_pb2.ModelSpec(name="films")) as version:
        registry.apply([ModelConfig("others", str(folders / "others"))])
        inputs = {"text": np.array([b"fine"], object)}
        assert run_predict(version, version.model.signatures["serving_default"], inputs)["label"][0] == b"good"
    with refused("NOT_FOUND", r"Latest\(films\)"):
        ask(registry)


def test_a_version_that_fails_is_tried_again_as_often_as_it_was_told(folders, tmp_path, log):
    truncate(variables(shutil.copytree(folders / "films" / "3", tmp_path / "1")))
    loading = Loading(max_num_load_retries=2, load_retry_interval_micros=0)
    model = versions.ServedModel("broken", str(tmp_path), loading=loading)
    for _ in range(5):
        model.poll()
    assert len([line for line in log if line.startswith("Rejected version 1 of broken")]) == 3


def test_the_file_is_applied_when_it_changes_and_a_bad_one_is_reported_once(registry, folders, tmp_path, log):
    path = tmp_path / "models.config"
    path.write_text(models(entry("films", folders / "films")))
    registry.apply(applied := read_model_config(str(path)))
    file = ConfigFile(registry, str(path), applied)
    file.poll()
    assert not any("Applied" in line for line in log)
    path.write_text(models(entry("films", "films")))
    for _ in range(3):
        file.poll()
    path.write_text(models(entry("films", folders / "films", 'version_labels { key: "a" value: 8 }')))
    file.poll()
    complaints = [line for line in log if "was not applied, and the models are unchanged:" in line]
    assert len(complaints) == 2 and "absolute" in complaints[0] and "label to version 8" in complaints[1]
    assert ask(registry) == (5, 0.875)
    path.write_text(models(entry("others", folders / "others")))
    file.poll()
    assert registry.names() == ["others"]


def test_a_file_that_sets_nothing_or_cannot_be_read_changes_nothing(registry, folders, tmp_path, log):
    path = tmp_path / "models.config"
    path.write_text(models(entry("others", folders / "others")))
    registry.apply(applied := read_model_config(str(path)))
    file = ConfigFile(registry, str(path), applied)
    for content in (b"", b"  # not yet\n", b"model_config_list {", b"\xff"):
        path.write_bytes(content)
        file.poll(), file.poll()
        assert ask(registry, "others") == (3, 0.75)
    path.unlink()
    file.poll()
    assert ask(registry, "others") == (3, 0.75)
    complaints = [line for line in log if "was not applied, and the models are unchanged:" in line]
    assert len(complaints) == 4 and "it sets nothing" in complaints[0] and "No such file" in complaints[3]
    path.write_text("model_config_list {}")
    file.poll()
    assert registry.names() == []


def test_a_file_that_changed_while_its_models_were_loaded_is_applied(registry, folders, tmp_path):
    path = tmp_path / "models.config"
    path.write_text(models(entry("films", folders / "films")))
    registry.apply(applied := read_model_config(str(path)))
    path.write_text(models(entry("others", folders / "others")))
    ConfigFile(registry, str(path), applied).poll()
    assert registry.names() == ["others"]


def test_a_server_of_an_empty_file_starts_not_ready_and_polling_outlives_any_fault(folders, tmp_path, monkeypatch, log):
    path = tmp_path / "models.config"
    path.write_text("")
    with serve(model_config_file=str(path), model_config_poll_seconds=0.02, poll_seconds=0) as server:
        ready = f"http://localhost:{server.rest_port}/readyz"
        assert ask_rest(ready) == (503, {"ready": False, "models": {}})
        with monkeypatch.context() as patch:
            patch.setattr(ModelRegistry, "apply", lambda *args: 1 / 0)
            path.write_text(models(entry("others", folders / "others")))
            wait_for(lambda: any("Checking for a new config failed" in line for line in log), 20)
        path.write_text(models(entry("films", folders / "films")))
        wait_for(lambda: ask_rest(ready)[0] == 200, 60)
        assert ask_rest(ready) == (200, {"ready": True, "models": {"films": True}})


def test_a_model_that_cannot_be_loaded_is_not_tried_at_each_look(registry, folders, tmp_path, log):
    path = tmp_path / "models.config"
    path.write_text(models(entry("films", folders / "films")))
    registry.apply(applied := read_model_config(str(path)))
    waiting, eager = (ConfigFile(registry, str(path), applied, seconds) for seconds in (1e6, 0.0))
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "saved_model.pb").write_bytes(b"junk")
    path.write_text(models(entry("films", folders / "films"), entry("broken", tmp_path / "broken")))
    for _ in range(3):
        waiting.poll()
    refusals = [line for line in log if line.startswith("Rejected version 1 of broken")]
    assert len(refusals) == 1 and refusals[0].endswith("No version of broken is served.")
    eager.poll(), eager.poll()
    assert len([line for line in log if line.startswith("Rejected version 1 of broken")]) == 3
    assert registry.names() == ["films"]


def ask_rest(url, body=None):
    """Returns (status, JSON)."""
    try:
        with urllib.request.urlopen(url, body and json.dumps(body).encode(), timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_server_of_several_models_over_both_faces(folders, tmp_path):
    from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

    labels = 'model_version_policy { all {} } version_labels { key: "stable" value: 4 }'
    path = tmp_path / "models.config"
    path.write_text(models(entry("films", folders / "films", labels), entry("others", folders / "others")))
    with serve(model_config_file=str(path), poll_seconds=0, bundle=QUICK.bundle) as server:
        url = f"http://localhost:{server.rest_port}/v1/models"
        body = {"instances": ["fine"]}
        _, answer = ask_rest(f"{url}/films/labels/stable:predict", body)
        assert answer["predictions"][0]["probabilities"][1] == 0.625
        assert ask_rest(f"{url}/films/labels/no:predict", body) == (
            400, {"error": "Unrecognized servable version label: no"}
        )  # fmt: skip
        status = ask_rest(f"{url}/films/labels/stable")[1]["model_version_status"]
        assert [each["version"] for each in status] == ["5", "4", "3"]
        assert ask_rest(f"{url}/films/labels/stable/metadata")[1]["model_spec"]["version"] == "4"
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            request = predict_pb2.PredictRequest()
            request.model_spec.name, request.model_spec.version_label = "films", "stable"
            request.inputs["text"].dtype = 7
            request.inputs["text"].tensor_shape.dim.add(size=1)
            request.inputs["text"].string_val.append(b"fine")
            answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request)
            assert answer.model_spec.version.value == 4
            stub = model_service_pb2_grpc.ModelServiceStub(channel)
            only = model_management_pb2.ReloadConfigRequest(config=config(models(entry("others", folders / "others"))))
            assert stub.HandleReloadConfigRequest(only).status.error_code == 0
            with pytest.raises(grpc.RpcError, match="Could not find any versions of model films"):
                stub.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "films"}))
            relative = model_management_pb2.ReloadConfigRequest(config=config(models(entry("films", "films"))))
            with pytest.raises(grpc.RpcError, match="absolute path") as caught:
                stub.HandleReloadConfigRequest(relative)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_either_a_path_or_a_config_says_what_is_served(folders, tmp_path):
    with pytest.raises(ValueError, match="Pass either `model_base_path` or `model_config_file` to select the models"):
        serve()
    with pytest.raises(ValueError, match="Pass either `model_base_path` or `model_config_file` to select the models"):
        serve(str(folders / "films"), model_config_file="models.config")
    path = tmp_path / "models.config"
    path.write_text(models(entry("films", folders / "films", 'version_labels { key: "a" value: 8 }')))
    with pytest.raises(ValueError, match="`model_config_file` must only assign labels to versions .* version 8 of"):
        serve(model_config_file=str(path))
