"""run_classifier.py as a user runs it: tables in, scores and answers out, killed and started again."""

import json
import os
import pathlib

import numpy as np
import pytest

import bert_tf
from bert_tf.inference.batch_prediction import table_job as jobs
from bert_tf.inference.batch_prediction.exported_model import find_model
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from bert_tf.training.history import read_history
from tests import tiny
from tests.scripts import CONTINUED, STEP, assert_same_tensors, check_continues, run, run_and_kill


def _pairs(n, seed):
    """Returns (text_a, text_b, label); the label is a word of two languages, the texts hold commas and quotes."""
    rows = tiny.texts(n, seed, names=("bad", "gut, wirklich"))
    return [(f'"{text}", ', "a story\tof people", label) for text, label in rows]


def _csv(path, rows):
    quoted = [",".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in ["text_a,text_b,label", *quoted]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder with a checkpoint, tables, and the arguments that every run here shares."""
    folder = tmp_path_factory.mktemp("end_to_end")
    tiny.checkpoint(folder / "init", dropout=0.1)
    _csv(folder / "train.csv", _pairs(128, 0))
    tiny.write_jsonl(folder / "dev.jsonl", _pairs(21, 1), ("text_a", "text_b", "label"))
    _csv(folder / "ask.csv", _pairs(5, 2))
    return folder


def _arguments(material, output):
    return [
        f"--train_file={material}/train.csv", f"--eval_file={material}/dev.jsonl", f"--predict_file={material}/ask.csv",
        "--text_column=text_a,text_b", f"--init_checkpoint={material}/init", f"--output_dir={output}",
        "--do_train", "--do_eval", "--do_predict", "--do_export", "--max_seq_length=32", "--train_batch_size=16",
        "--num_train_epochs=10",
        "--learning_rate=2e-3", "--deterministic", "--save_checkpoints_steps=10", "--seed=1",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def whole(material):
    """A run that was left alone: its folder, and its log."""
    return material / "whole", run(_arguments(material, material / "whole"))


def test_the_export_answers_as_the_script_did(whole):
    folder, _ = whole
    said = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    with serve(str(folder / "export"), "pairs") as server, Client(f"localhost:{server.port}", "pairs") as client:
        got = client.classify([row["text_a"] for row in said], [row["text_b"] for row in said])
    for row, answer in zip(said, got, strict=True):
        assert answer["label"] == row["label"] and list(answer["probabilities"]) == list(row["probabilities"])
        assert answer["probabilities"] == pytest.approx(row["probabilities"], abs=1e-5)


def test_predict_answers_as_the_script_did(material, whole, tmp_path):
    folder, _ = whole
    model, columns = find_model(str(folder / "export")), ("text_a", "text_b")
    (path,) = jobs.run_table_job(
        jobs.TableJob(str(material / "ask.csv"), str(tmp_path / "answers.jsonl"), model, columns)
    )
    files = pathlib.Path(path), folder / "predictions.jsonl"
    lines = [file.read_text(encoding="utf-8").splitlines() for file in files]
    for answer, row in (map(json.loads, pair) for pair in zip(*lines, strict=True)):
        pairs = zip(answer.pop("labels"), answer.pop("probabilities"), strict=True)
        assert dict(pairs) == pytest.approx(row.pop("probabilities"), abs=1e-6)
        assert answer == {name: value for name, value in row.items() if name not in columns}


def test_scores(whole):
    folder, log = whole
    lines = (folder / "eval_results.txt").read_text().splitlines()
    scores = dict(line.split(" = ") for line in lines)
    assert lines == sorted(lines) and {"eval_accuracy", "eval_loss", "global_step"} <= set(scores)
    assert scores["global_step"] == "80"
    assert float(scores["eval_accuracy"]) > 0.8 and 0 < float(scores["eval_loss"]) < 0.7
    assert all(f"  {line}" in log for line in lines)


def test_answers(whole):
    folder, _ = whole
    assert (folder / "labels.txt").read_text(encoding="utf-8") == "bad\ngut, wirklich\n"
    answers = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [list(answer) for answer in answers] == [["id", "text_a", "text_b", "label", "probabilities"]] * 5
    asked = _pairs(5, 2)
    assert [(a["id"], a["text_a"], a["text_b"]) for a in answers] == [
        (str(i), a, b) for i, (a, b, _) in enumerate(asked)]  # fmt: skip
    assert sum(answer["label"] == label for answer, (_, _, label) in zip(answers, asked, strict=True)) >= 4
    table = [list(map(float, row.split("\t"))) for row in (folder / "test_results.tsv").read_text().splitlines()]
    assert table == [[*answer["probabilities"].values()] for answer in answers]
    for answer in answers:
        found = answer["probabilities"]
        assert list(found) == ["bad", "gut, wirklich"] and sum(found.values()) == pytest.approx(1)
        assert answer["label"] == max(found, key=found.get)


def test_the_directory_is_a_checkpoint_that_gives_the_same_answers(whole):
    bert = bert_tf.load(whole[0])
    assert bert.labels == ["bad", "gut, wirklich"] and bert.config.num_hidden_layers == 1
    texts = _pairs(5, 2)
    rows = bert.tokenizer([a for a, _, _ in texts], [b for _, b, _ in texts], 32)
    logits = bert.head(bert.encoder(rows)["pooled_output"]).numpy().astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    written = np.loadtxt(whole[0] / "test_results.tsv", delimiter="\t")
    np.testing.assert_allclose(written, chances, rtol=0, atol=1e-5)


def test_the_directory_holds_what_the_documentation_says_and_nothing_more(whole):
    kept = [f"model.ckpt-{step}.{kind}" for step in (40, 50, 60, 70, 80) for kind in ("data-00000-of-00001", "index")]
    others = ["bert_config.json", "checkpoint", "eval_files.json", "eval_predictions.tsv", "eval_results.txt", "export"]
    others += ["predictions.jsonl", "report.html", "task.json", "test_results.tsv", "tokenizer_config.json", "train"]
    others += ["history.jsonl", "labels.txt", "run.json", "tokenizer.json", "vocab.txt"]
    assert sorted(os.listdir(whole[0])) == sorted(kept + others)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_weights_to_the_bit(material, whole):
    arguments = _arguments(material, material / "killed")
    killed = run_and_kill(arguments, 25)
    log = run(arguments)
    check_continues(log, killed, every=10)
    assert_same_tensors(whole[0] / "model.ckpt-80", material / "killed" / "model.ckpt-80")
    for name in ("eval_results.txt", "test_results.tsv", "predictions.jsonl"):
        assert (material / "killed" / name).read_bytes() == (whole[0] / name).read_bytes()
    (begun,) = map(int, CONTINUED.findall(log))
    lines = read_history(material / "killed" / "history.jsonl")
    assert [line["step"] for line in lines if line["kind"] == "start"] == [0, begun]
    steps = [line["step"] for line in lines if line["kind"] == "train"]  # as of a run that was not stopped
    assert steps == list(range(2, 81))
    page = (material / "killed" / "report.html").read_text(encoding="utf-8")
    assert f"from step {begun}" in page and f"model.ckpt-{begun}" in page and ">--learning_rate<" in page
    assert [f'aria-label="{name}"' in page for name in ("Loss", "Gradient norm before clipping")] == [True, True]


@pytest.mark.slow
def test_killed_three_times_on_real_data(minilm, shared_data, tmp_path):
    """The command of the documentation; some 15 minutes on two cores."""
    data = shared_data / "sst2-tutorial"
    arguments = [
        f"--train_file={data}/train.tsv", f"--eval_file={data}/test.tsv", f"--predict_file={data}/test.tsv",
        "--header=false", "--text_column=0", "--label_column=1", f"--init_checkpoint={minilm}", "--do_train",
        "--do_eval", "--do_predict", "--max_seq_length=64", "--train_batch_size=32", "--learning_rate=5e-5",
        "--num_train_epochs=3", "--precision=mixed_bfloat16", "--seed=1", "--deterministic",
        "--save_checkpoints_steps=50",
    ]  # fmt: skip
    run([*arguments, f"--output_dir={tmp_path}/whole"])
    arguments.append(f"--output_dir={tmp_path}/killed")
    killed = run_and_kill(arguments, 70)
    for step in (200, 333):
        again = run_and_kill(arguments, step)
        check_continues(again, killed, every=50)
        killed = again
    log = run(arguments)
    check_continues(log, killed, every=50)
    steps = int(STEP.findall(log)[-1][1])
    assert_same_tensors(tmp_path / "whole" / f"model.ckpt-{steps}", tmp_path / "killed" / f"model.ckpt-{steps}")
    for name in ("eval_results.txt", "test_results.tsv", "predictions.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
