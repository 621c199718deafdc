"""The demo around stand-ins for `bert_tf.finetune` and for the server, which note how they were called."""

import contextlib
import http.server
import json
import os
import pathlib
import threading
import urllib.request

import pytest

import bert_tf
from bert_tf.cli import demo
from bert_tf.experiments.demo import data as demo_data
from bert_tf.experiments.demo import run as demo_run
from bert_tf.experiments.demo import serving
from bert_tf.experiments.demo.archives import ensure
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.utils import resources
from bert_tf.utils.settings import Settings


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts the stand-in and small folders in place; gives the function that runs the demo."""
    calls = tmp_path / "calls"

    def finetune(task, **given):
        with open(calls, "a") as file:
            file.write(json.dumps({"task": task, **given}) + "\n")
        out = pathlib.Path(given["output_dir"])
        out.mkdir(parents=True, exist_ok=True)
        (out / "model").write_text("half")
        if os.environ.get("STAND_IN_FAILS"):
            raise ValueError("a bad row")
        (out / "eval_results.txt").write_text(f"eval_accuracy = {os.environ.get('STAND_IN_ACCURACY', '0.87')}\n")
        pathlib.Path(given["export_dir"], "1").mkdir(parents=True, exist_ok=True)

    monkeypatch.setitem(vars(bert_tf), "finetune", finetune)  # without importing the real one
    for name, file in (("prepare_weights", "model.safetensors"), ("prepare_text", "train.tsv")):

        def prepare(folder, file=file):
            return ensure(folder, {}, lambda made: (made / file).write_text("content"))

        monkeypatch.setattr(demo_data, name, prepare)

    def ask(models, sentences, log, python):
        assert (models / "1").is_dir()
        with open(calls, "a") as file:
            file.write(json.dumps(list(sentences)) + "\n")
        labels = [demo.SENTENCES.get(sentence, "positive") for sentence in sentences]
        if os.environ.get("STAND_IN_ERRS"):
            labels.reverse()
        return [{"text": s, "label": x, "probabilities": {x: 0.75}} for s, x in zip(sentences, labels, strict=True)]

    monkeypatch.setattr(serving, "ask_models", ask)

    monkeypatch.setattr(demo_run, "matrix_speed", lambda: 1000.0)
    monkeypatch.setattr(resources, "best_precision", lambda: "float32")

    def run(*texts, refusal=None, **settings):
        calls.unlink(missing_ok=True)
        values = {flag.name: flag.default for flag in demo.FLAGS} | {"demo_dir": str(tmp_path / "demo")} | settings
        with pytest.raises(ValueError, match=refusal) if refusal else contextlib.nullcontext():
            demo.main(Settings(values), list(texts))
        lines = calls.read_text().splitlines() if calls.exists() else []
        return ["train" if "train" in json.loads(line) else "ask" for line in lines]

    run.calls, run.output = calls, tmp_path / "demo" / "output"
    return run


def test_first_run_trains_asks_and_reports(stand_in, capsys):
    assert stand_in() == ["train", "ask"]
    said = capsys.readouterr().out
    assert "Held-out accuracy: 0.8700" in said
    assert f"positive   75.0%  {list(demo.SENTENCES)[0]}" in said
    assert ">>> bert_tf.finetune(" in said and "train_batch_size=32," in said, "printed so that one can repeat it"
    train, sentences = map(json.loads, stand_in.calls.read_text().splitlines())
    assert train["task"] == "classification" and train["label_column"] == "label"
    assert train["eval"].endswith("demo/data/test.tsv") and train["export_dir"].endswith("demo/models/reviews")
    assert (train["learning_rate"], train["num_train_epochs"], train["max_seq_length"]) == (5e-5, 2, 64)
    assert sentences == list(demo.SENTENCES)


def test_finetune_takes_the_arguments(tmp_path):
    arguments = demo_run.DemoRun(tmp_path, "float32", 1.5, 1).arguments()
    settings = {name: value for name, value in arguments.items() if name not in ("train", "eval")}
    read = read_keywords("finetune", task_flags(ClassificationTask), settings)
    assert read.given_values() == settings | {"text_column": ["text"]}


def trained_with(stand_in):
    """Returns precision and passes of the training that was just run."""
    call = json.loads(stand_in.calls.read_text().splitlines()[0])
    return call["precision"], call["num_train_epochs"]


def test_the_machine_decides_how_it_is_trained(stand_in, monkeypatch, capsys):
    monkeypatch.setattr(demo_run, "matrix_speed", lambda: 100.0)
    stand_in()
    assert trained_with(stand_in) == ("float32", 1)
    assert "Plan: float32, 1 pass over 8,058 sentences, about 3:24 minutes" in capsys.readouterr().out
    monkeypatch.setattr(demo_run, "matrix_speed", lambda: 1000.0)
    monkeypatch.setattr(resources, "best_precision", lambda: "mixed_bfloat16")
    assert stand_in() == ["ask"], "what was begun in one way is not begun again in another"
    assert "Plan" not in capsys.readouterr().out
    stand_in(demo_dir=str(stand_in.output.parent.with_name("another")))
    assert trained_with(stand_in) == ("mixed_bfloat16", 2)


def test_what_is_given_wins(stand_in, monkeypatch):
    monkeypatch.setattr(demo_run, "matrix_speed", lambda: 100.0)
    stand_in(num_train_epochs=1.5)
    assert trained_with(stand_in) == ("float32", 1.5)
    assert stand_in(precision="mixed_bfloat16") == ["train", "ask"]
    assert trained_with(stand_in) == ("mixed_bfloat16", 1.5), "the rest as it was"
    assert stand_in(precision="mixed_bfloat16", num_train_epochs=0.5) == ["train", "ask"]
    assert trained_with(stand_in) == ("mixed_bfloat16", 0.5)


def test_second_run_only_asks(stand_in, capsys):
    stand_in()
    capsys.readouterr()
    assert stand_in() == ["ask"]
    assert "Held-out accuracy: 0.8700" in capsys.readouterr().out


def test_other_sentences_are_asked_without_training(stand_in, capsys):
    stand_in()
    assert stand_in("What a film!") == ["ask"]
    assert "75.0%  What a film!" in capsys.readouterr().out


def test_another_setting_trains_from_nothing(stand_in):
    stand_in()
    (stand_in.output / "left-over").touch()
    assert stand_in(seed=2) == ["train", "ask"]
    assert not (stand_in.output / "left-over").exists()


def test_altered_data_trains_from_nothing(stand_in, monkeypatch):
    stand_in()

    def prepare(folder):
        return ensure(folder, {"seed": 2}, lambda made: (made / "train.tsv").write_text("other"))

    monkeypatch.setattr(demo_data, "prepare_text", prepare)
    assert stand_in() == ["train", "ask"]


def test_interrupted_training_is_left_to_continue(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "1")
    assert stand_in(refusal="a bad row") == ["train"]
    (stand_in.output / "checkpoint").touch()
    monkeypatch.delenv("STAND_IN_FAILS")
    assert stand_in() == ["train", "ask"]
    assert (stand_in.output / "checkpoint").exists(), "what the first run saved is still there for the second"


def test_low_accuracy_is_a_failure(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_ACCURACY", "0.839")
    assert stand_in(refusal="too low: 0.8390; expected at least 0.84") == ["train", "ask"]


def test_wrong_answers_are_a_failure(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_ERRS", "1")
    assert stand_in(refusal="Wrong predictions for the demo's own sentences") == ["train", "ask"]


def test_a_proxy_in_the_environment_does_not_hide_the_server(tmp_path, monkeypatch):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    class Process:
        def poll(self):
            return None

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(serving, "_SERVE_PATIENCE", 5)
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://localhost:{server.server_port}/", timeout=60)
        serving._wait_until_ready(Process(), server.server_port, tmp_path)
        server.shutdown()


def test_a_folder_of_somebody_else_is_not_removed(stand_in):
    stand_in.output.mkdir(parents=True)
    (stand_in.output / "thesis.txt").touch()
    assert stand_in(refusal="was not created by the demo") == []
    assert (stand_in.output / "thesis.txt").exists()


def test_scores_without_an_accuracy_are_refused(tmp_path):
    path = tmp_path / "eval_results.txt"
    path.write_text("eval_loss = 0.3\nglobal_step = 504\n")
    with pytest.raises(ValueError, match=r"lacks eval_accuracy; it has \['eval_loss', 'global_step'\]"):
        demo.read_scores(path)
