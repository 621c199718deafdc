"""The history of a run as it is told to Weights & Biases and MLflow: fakes of their names record the calls."""

import json
import math
import sys

import pytest

from bert_tf.training import tracking
from bert_tf.training.history import History, read_history

_WANDB = """
calls = []
class Run:
    id = "id-1"
    def define_metric(self, *args, **kwargs): calls.append(("define_metric", args, kwargs))
    def log(self, values):
        calls.append(("log", values))
        if values["step"] == 9: raise OSError("no route to host")
    def finish(self, exit_code): calls.append(("finish", exit_code))
def init(**kwargs):
    calls.append(("init", kwargs))
    return Run()
"""
_MLFLOW = """
import types
calls = []
def start_run(**kwargs):
    calls.append(("start_run", kwargs))
    if kwargs["run_name"] == "nowhere": raise RuntimeError("no such store")
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id="id-2"))
def log_params(values): calls.append(("log_params", values))
def log_metrics(values, step): calls.append(("log_metrics", values, step))
def end_run(status): calls.append(("end_run", status))
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Puts both fakes where Python finds them, and returns a function of a name that returns the calls so far."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name, text in (("wandb", _WANDB), ("mlflow", _MLFLOW)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("bert_tf.training.history.build_history_page", lambda lines, title: title)

    def take(name):
        calls = sys.modules[name].calls
        taken, calls[:] = list(calls), []
        return taken

    yield take
    for name in ("wandb", "mlflow"):
        sys.modules.pop(name, None)


def _history(folder, tracker):
    folder.mkdir(exist_ok=True)
    return tracking.make_history(tracker, str(folder), {"seed": 3})


def _run(history, step=0):
    with tracking.tracked(history):
        history.start(step, None)
        history.trained(step + 1, {"loss": 0.5, "gradient_norm": math.nan, "skipped": 0})
        history.concluded(step + 2, {"accuracy": 0.75})


def test_weights_and_biases(packages, tmp_path):
    folder = tmp_path / "out"
    _run(_history(folder, "wandb"))
    begin = {"name": "out", "dir": str(folder), "id": None, "resume": "allow", "config": {"seed": "3"}}
    by_step = ("define_metric", ("*",), {"step_metric": "step"})
    train, held_out = {"train/loss": 0.5, "train/skipped": 0.0}, {"eval/accuracy": 0.75}
    logged = [("log", {"step": 1, **train}), ("log", {"step": 2, **held_out})]
    assert packages("wandb") == [("init", begin), by_step, *logged, ("finish", 0)]
    assert [(line["kind"], line["step"]) for line in read_history(folder / "history.jsonl")][1:] == [
        ("train", 1),
        ("eval", 2),
    ]
    with pytest.raises(KeyboardInterrupt), tracking.tracked(history := _history(folder, "wandb")):
        history.start(2, None)
        history.start(1, None)  # it went back
        raise KeyboardInterrupt
    assert packages("wandb") == [("init", begin | {"id": "id-1"}), by_step, ("finish", 1)]
    assert json.loads((folder / "tracking.json").read_text()) == {"wandb": "id-1"}


def test_mlflow(packages, tmp_path):
    _run(_history(tmp_path / "out", "mlflow"))
    train, held_out = {"train/loss": 0.5, "train/skipped": 0.0}, {"eval/accuracy": 0.75}
    logged = [("log_metrics", train, 1), ("log_metrics", held_out, 2)]
    begun = ("start_run", {"run_id": None, "run_name": "out"}), ("log_params", {"seed": "3"})
    assert packages("mlflow") == [*begun, *logged, ("end_run", "FINISHED")]
    with pytest.raises(SystemExit), tracking.tracked(history := _history(tmp_path / "out", "mlflow")):
        history.start(2, None)
        raise SystemExit(143)
    assert packages("mlflow") == [("start_run", {"run_id": "id-2", "run_name": "out"}), ("end_run", "FAILED")]


def test_what_goes_wrong_there(packages, tmp_path, caplog):
    _run(_history(tmp_path / "out", "wandb"), step=8)
    assert "`tracking=wandb` failed to log: no route to host. Training continues." in caplog.messages
    assert packages("wandb")[-1] == ("finish", 0)
    with pytest.raises(ValueError, match="`tracking=mlflow` could not start a run: no such store. Log"):
        _run(_history(tmp_path / "nowhere", "mlflow"))
    (tmp_path / "out" / "tracking.json").write_text("[", encoding="utf-8")
    with pytest.raises(ValueError, match="tracking.json must contain the tracker ids of the run as JSON: "):
        _run(_history(tmp_path / "out", "wandb"))


def test_a_missing_package_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r"`tracking=wandb` requires the package wandb: .*\. Install it "
                       r"with `pip install wandb`, or remove `tracking`\."):  # fmt: skip
        tracking.check_tracking("wandb")


def test_without_it_nothing_is_imported(packages, tmp_path):
    tracking.check_tracking(None)
    history = _history(tmp_path / "out", None)
    _run(history)
    assert type(history) is History and not {"wandb", "mlflow"} & sys.modules.keys()
    assert not (tmp_path / "out" / "tracking.json").exists()
