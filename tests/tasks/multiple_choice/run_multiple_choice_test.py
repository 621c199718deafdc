"""bert-tf train choice as a user runs it: SWAG's tables and JSON lines in, choices and scores out, served."""

import io
import json
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import bert_tf
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from tests import run_cases, tiny
from tests.conftest import ROOT
from tests.scripts import run_named
from tests.tasks.multiple_choice import support
from tests.tasks.program_tests import *  # noqa: F403
from tests.tasks.program_tests import json_lines, scores_of, table_of

pytestmark = pytest.mark.slow  # run_squad goes the same way among the fast tests

PROGRAM = "run_multiple_choice"

TRAIN = ["--init_checkpoint=HOME/init", "--train_file=HOME/train.jsonl", "--do_train", "--train_batch_size=16",
         "--max_seq_length=20", "--learning_rate=4e-3", "--num_train_epochs=8", "--seed=2"]  # fmt: skip
ASK = ["--do_eval", "--eval_file=HOME/dev.csv", "--do_predict", "--predict_file=HOME/ask.jsonl"]
CASES = {
    "whole": [*TRAIN, *ASK, "--do_export", "--save_format=huggingface", "--output_dir=HOME/whole"],
    "later": ["--init_checkpoint=HOME/whole", *ASK, "--output_dir=HOME/later"],
}
LATER = {"later": ("predictions.jsonl", "test_results.tsv", "eval_predictions.tsv")}
PAGE = ("Multiple choice on dev.csv", "Results by number of choices", "Most confident errors")
COLUMNS = ["id", "label", "prediction", "probability", "context"]
MORE = {
    "options": [*TRAIN, *ASK, "--metric_for_best_model=accuracy", "--early_stopping=3", "--layerwise_lr_decay=0.9",
                "--pack_examples",
                "--do_export", "--export_dtype=bfloat16", "--save_checkpoints_steps=10",
                "--gradient_accumulation_steps=2", "--output_dir=HOME/options"],
    "lora": [*TRAIN, *ASK, "--lora_rank=2", "--do_export", "--output_dir=HOME/lora"],
    "compiled": [*TRAIN, *ASK, "--use_xla=true", "--output_dir=HOME/compiled"],
    "theirs": ["--init_checkpoint=HOME/whole/huggingface", "--max_seq_length=20", *ASK, "--output_dir=HOME/theirs"],
    "theirs trained": [*TRAIN, *ASK, "--init_checkpoint=HOME/whole/huggingface", "--num_train_epochs=1",
                       "--learning_rate=1e-9", "--output_dir=HOME/theirs_trained"],
}  # fmt: skip
OUT = "--output_dir=HOME/bad"
BAD = {  # case -> arguments, what the message says
    "no file": ([*TRAIN[:1], *TRAIN[2:], OUT], "--do_train requires questions. Specify --train_file."),
    "one choice": ([*TRAIN, "--train_file=HOME/one.jsonl", OUT], "one.jsonl:1: 'choices' must be a list of at "),
    "empty": ([*TRAIN, "--train_file=HOME/empty.jsonl", OUT], "empty.jsonl contains no questions."),
    "another task": (["--init_checkpoint=HOME/classifier", *ASK, OUT], "This requires a model for multiple_choice"),
    "a format": ([*TRAIN, "--save_format=keras_hub", OUT], "--save_format=keras_hub cannot store everything"),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_multiple_choice")
    tiny.checkpoint(folder / "init", dropout=0.1)
    config = folder / "init" / "bert_config.json"  # of a model that had three labels before
    config.write_text(json.dumps(json.loads(config.read_text()) | {"id2label": {"0": "a", "1": "b", "2": "c"}}))
    tiny.checkpoint(folder / "classifier")
    (folder / "classifier" / "task.json").write_text(json.dumps(
        {"task": "classification", "num_labels": 2, "text_inputs": ["text"], "max_seq_length": 16}))  # fmt: skip
    support.write_jsonl(folder / "train.jsonl", support.questions(96, counts=(2, 6)))
    support.write_swag(folder / "dev.csv", support.questions(24, 1))
    rows = support.questions(9, 2, counts=(2, 7))
    rows.append(("a 😀 fílm", ["good 我喜欢", "the e\u0301 bad"], 0))
    (folder / "ask.jsonl").write_text("".join(
        json.dumps({"id": f"q{i}", "context": context, "choices": choices}) + "\n"
        for i, (context, choices, _) in enumerate(rows)))  # fmt: skip
    support.write_jsonl(folder / "one.jsonl", [("a", ["b"], 0)])
    (folder / "empty.jsonl").write_text("")
    return folder


@pytest.fixture(scope="module")
def more(home, results):
    return run_named("run_multiple_choice", home, MORE)


@pytest.fixture(scope="module")
def server(home, results):
    with serve(f"{home}/whole/export", "swag", poll_seconds=0) as server:
        yield server


def _ask(server, *arguments, text=""):
    words = [sys.executable, "-m", "bert_tf", "ask", f"--server=localhost:{server.port}", "--model_name=swag"]
    return subprocess.run([*words, *arguments], cwd=ROOT, input=text, capture_output=True, text=True, check=False)


def test_scores_are_of_what_is_written(home, results):
    scores = scores_of(home / "whole")
    assert set(scores) == {"eval_accuracy", "eval_loss", "global_step"} and scores["global_step"] == 48
    _, rows = table_of(home / "whole")
    assert len(rows) == 24
    assert scores["eval_accuracy"] == pytest.approx(np.mean([a == b for _, a, b, *_ in rows]))
    assert scores["eval_accuracy"] > 0.8


def test_predictions_have_what_was_asked_and_a_probability_for_each_choice(home, results):
    said = json_lines(home / "whole" / "predictions.jsonl")
    table = [line.split("\t") for line in (home / "whole" / "test_results.tsv").read_text().splitlines()]
    for question, line, numbers in zip(json_lines(home / "ask.jsonl"), said, table, strict=True):
        assert list(line) == ["id", "context", "choices", "choice", "probabilities"]
        assert {name: line[name] for name in question} == question
        assert len(line["probabilities"]) == len(question["choices"]) == len(numbers)
        assert sum(line["probabilities"]) == pytest.approx(1) and line["choice"] == np.argmax(line["probabilities"])
        assert list(map(float, numbers)) == line["probabilities"]


def test_it_is_written_as_the_class_that_chooses(home, results):
    config = json.loads((home / "whole" / "huggingface" / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"] and "id2label" not in config
    assert bert_tf.load(home / "whole").head.num_labels == 1


def _check(answers, said):
    for line, answer in zip(said, answers, strict=True):
        assert answer["choice"] == line["choice"]
        own = answer["probabilities"][: len(line["choices"])]
        np.testing.assert_allclose(own, line["probabilities"], atol=1e-5)
        assert not any(answer["probabilities"][len(own) :])


def test_the_served_choices_are_the_scripts(home, results, server):
    said = json_lines(home / "whole" / "predictions.jsonl")
    questions = {name: [line[name] for line in said] for name in ("context", "choices")}
    with Client(f"localhost:{server.port}", "swag") as client:
        _check(client.ask(questions), said)
        (alone,) = client.ask({name: values[:1] for name, values in questions.items()})
    assert list(alone) == ["choice", "probabilities"] and len(alone["probabilities"]) == len(said[0]["choices"])


def test_over_rest(home, results, server):
    said = json_lines(home / "whole" / "predictions.jsonl")
    most = max(len(line["choices"]) for line in said)
    asked = [
        {"context": line["context"], "choices": line["choices"] + [""] * (most - len(line["choices"]))} for line in said
    ]
    url = f"http://localhost:{server.rest_port}/v1/models/swag:predict"
    request = urllib.request.Request(url, json.dumps({"instances": asked}).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        _check(json.loads(response.read())["predictions"], said)


def test_the_program_asks(home, results, server):
    said = json_lines(home / "whole" / "predictions.jsonl")
    lines = "".join("\t".join([line["context"], *line["choices"]]) + "\n" for line in said)
    done = _ask(server, "--choices", text=lines)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    _check(printed, said)
    for answer, line in zip(printed, said, strict=True):
        assert list(answer) == ["context", "choices", "choice", "probabilities"]
        assert (answer["context"], answer["choices"]) == (line["context"], line["choices"])
        assert len(answer["probabilities"]) == len(line["choices"])
    named = _ask(server, "--inputs=context,choices", said[0]["context"], *said[0]["choices"])
    _check([json.loads(named.stdout)], said[:1])


@pytest.mark.parametrize("arguments, text, message", [
    (["--choices"], "a\tb\tc\na\tb\n", "The tab-separated texts of line 2 must be a context and at least two choices"),
    (["--choices", "a", "b", " "], "", "The arguments must be a context and at least two choices, none of them empty;"),
    (["--choices", "--pair", "a"], "", "--pair and --choices cannot be combined"),
    (["--choices", "--inputs=a,b"], "", "--choices means --inputs=context,choices and cannot be"),
])  # fmt: skip
def test_the_program_says_what_is_wrong(server, monkeypatch, arguments, text, message):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = run_cases.run_here("ask", [f"--server=localhost:{server.port}", "--model_name=swag", *arguments])
    assert done["status"] == 1 and message in done["log"] and len(done["log"].splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("run", MORE)
def test_all_that_fine_tuning_has_works_for_it(home, more, run):
    assert more[run]["status"] == 0, more[run]["log"]
    folder = home / run.replace(" ", "_")
    assert scores_of(folder)["eval_accuracy"] > 0.5 and (folder / "report.html").exists()


@pytest.mark.slow
def test_a_model_in_transformers_form_answers_alike(home, more):
    for name in LATER["later"]:
        assert (home / "theirs" / name).read_bytes() == (home / "whole" / name).read_bytes()


@pytest.mark.slow
def test_training_begins_from_a_head_in_transformers_form(home, more):
    """A rate of nearly nothing: what it had learned is still there."""
    assert scores_of(home / "theirs_trained")["eval_accuracy"] == scores_of(home / "whole")["eval_accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("run, atol", [("options", 0.1), ("lora", 1e-5)])
def test_what_is_exported_answers_alike(home, more, run, atol):
    said = json_lines(home / run / "predictions.jsonl")
    with serve(f"{home}/{run}/export", "swag", poll_seconds=0) as server, Client(
        f"localhost:{server.port}", "swag") as client:  # fmt: skip
        answers = client.ask({name: [line[name] for line in said] for name in ("context", "choices")})
    for line, answer in zip(said, answers, strict=True):
        np.testing.assert_allclose(answer["probabilities"], line["probabilities"], atol=atol)
