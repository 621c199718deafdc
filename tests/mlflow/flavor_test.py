"""The MLflow flavor with MLflow itself: saved, logged, registered, loaded, and asked by its server."""

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import bert_tf
from bert_tf.export.trained_model import export_trained
from tests import other_envs
from tests.conftest import ROOT
from tests.export.models import write_trained

TEXTS = ["a good film", "a bad story ."]
CODE = """
import json, os, sys
import mlflow, pandas as pd
import bert_tf.mlflow
from mlflow.models import Model
export, folder = sys.argv[1:]
os.chdir(folder)
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
info = bert_tf.mlflow.log_model(export, name="reviews", registered_model_name="reviews", tags={"kind": "test"})
texts = json.loads(os.environ["TEXTS"])
frame = pd.DataFrame({"text": texts, "other": 1})
found = {"native": bert_tf.mlflow.load_model("models:/reviews/1")(texts)}
loaded = mlflow.pyfunc.load_model(info.model_uri)
found["frame"] = loaded.predict(frame[["text"]]).to_dict("records")
bert_tf.mlflow.save_model(export, "saved", pip_requirements=["bert-tf"], metadata={"owner": "me"})
description = Model.load("saved")
found["inputs"] = description.signature.inputs.to_dict()
found["outputs"] = [each["name"] for each in description.signature.outputs.to_dict()]
found["flavors"], found["metadata"] = sorted(description.flavors), description.metadata
found["requirements"] = open("saved/requirements.txt").read()
found["default"] = open(os.path.join(mlflow.artifacts.download_artifacts(info.model_uri), "requirements.txt")).read()
found["errors"] = []
for act in (lambda: loaded._model_impl.predict(pd.DataFrame({"wrong": texts})),
            lambda: loaded._model_impl.predict(texts, {"top_k": 2}),
            lambda: bert_tf.mlflow.save_model("nowhere", "other"),
            lambda: bert_tf.mlflow.save_model(export, "other", loader_module="mine")):
    try:
        act()
    except ValueError as error:
        found["errors"].append(str(error))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    write_trained(folder / "trained", "classification")
    return export_trained(str(folder / "trained"), str(folder / "models"))


def environment():
    """Returns the environment of a process in which MLflow can be imported, besides all that is installed here."""
    path = os.pathsep.join([str(ROOT), other_envs.mlflow_packages()])
    return {**os.environ, "PYTHONPATH": path, "TEXTS": json.dumps(TEXTS)}


def test_without_mlflow_its_package_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("bert_tf.mlflow", "mlflow"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ValueError, match=r"`bert_tf.mlflow` requires mlflow. Install it: pip install 'bert-tf\[mlflow"):
        importlib.import_module("bert_tf.mlflow")


@pytest.mark.slow
def test_a_model_is_logged_registered_and_loaded(export, tmp_path):
    command = [sys.executable, "-c", CODE, export, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert not done.returncode, done.stderr[-4000:]
    found, wanted = json.loads(done.stdout.splitlines()[-1]), bert_tf.Predictor(export)(TEXTS)
    assert found["native"] == wanted and found["frame"] == wanted
    assert [(each["name"], each["type"]) for each in found["inputs"]] == [("text", "string")]
    assert found["outputs"] == ["label", "probabilities"] and found["metadata"] == {"owner": "me"}
    assert found["flavors"] == ["bert_tf", "python_function"]
    assert found["requirements"].split()[-1] == "bert-tf" and "tensorflow==" in found["default"]
    wrong, params, nowhere, own = found["errors"]
    assert "must have the columns text; got wrong" in wrong and "`params` must be empty" in params
    assert "got nowhere" in nowhere and "`loader_module` is set by `bert_tf.mlflow`" in own


@pytest.mark.slow
def test_mlflow_s_server_answers(export, tmp_path):
    save = "import sys, bert_tf.mlflow; bert_tf.mlflow.save_model(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", save, export, str(tmp_path / "saved")], env=environment(), check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(tmp_path / "saved"), "-p", str(port),
             "-h", "127.0.0.1", "--env-manager", "local"]  # fmt: skip
    uvicorn = tmp_path / "bin" / "uvicorn"  # which the server starts, with this Python
    uvicorn.parent.mkdir()
    uvicorn.write_text(f'#!/bin/sh\nexec {sys.executable} -m uvicorn "$@"\n')
    uvicorn.chmod(0o755)
    path = os.pathsep.join([str(uvicorn.parent), os.environ["PATH"]])
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(serve, env=environment() | {"PATH": path}, stdout=log, stderr=log,
                                  start_new_session=True)  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}/ping", server, tmp_path / "log")
        body = json.dumps({"dataframe_split": {"columns": ["text"], "data": [[text] for text in TEXTS]}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", body,
                                         {"Content-Type": "application/json"})  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)["predictions"]
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    wanted = bert_tf.Predictor(export)(TEXTS)
    assert [each["label"] for each in answer] == [each["label"] for each in wanted]
    for found, expected in zip(answer, wanted, strict=True):
        assert found["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)


def _wait(url, server, log):
    for _ in range(240):
        assert server.poll() is None, log.read_text(errors="replace")[-4000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text(errors="replace")[-4000:])
