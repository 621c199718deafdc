"""The wheel alone, outside any checkout: what the README says of training, exporting, serving and asking."""

import json
import re
import subprocess
import time

import pytest

from tests import tiny, wheels
from tests.experiments.glue.glue_folder import write_glue

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an environment, `venv`, that has the wheel, and a model and data."""
    folder = tmp_path_factory.mktemp("home")
    wheels.install(wheels.build(tmp_path_factory.mktemp("wheel")), folder)
    tiny.checkpoint(folder / "init")
    for name, seed in (("train", 0), ("test", 1)):
        tiny.write_tsv(folder / f"{name}.tsv", tiny.texts(96, seed, names=("bad", "good")))
    return folder


def test_the_programs_are_listed(home):
    listed = wheels.run(["venv/bin/bert-tf"], home).stdout
    assert "  train classifier " in listed
    assert wheels.run(["venv/bin/python", "-m", "bert_tf"], home).stdout == listed


def test_from_a_table_to_an_answer(home):
    train = ["--train_file=train.tsv", "--eval_file=test.tsv", "--init_checkpoint=init", "--output_dir=output"]
    rates = ["--max_seq_length=32", "--train_batch_size=16", "--learning_rate=2e-3", "--num_train_epochs=10"]
    wheels.run(["venv/bin/bert-tf", "run_classifier", *train, *rates, "--do_train", "--do_eval"], home)
    assert float(re.search(r"eval_accuracy = (.*)", (home / "output" / "eval_results.txt").read_text())[1]) > 0.9
    wheels.run(["venv/bin/bert-tf", "export", "--model=output", "--export_dir=models/reviews"], home)
    ports = ["--port=0", "--rest_api_port=0"]
    serve = ["venv/bin/bert-tf", "serve", "--model_base_path=models/reviews", "--model_name=reviews", *ports]
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(serve, cwd=home, env=wheels.environment(), stdout=log, stderr=log)
    try:
        port = _port(server, home / "server.log")
        ask = ["venv/bin/bert-tf", "ask", f"--server=localhost:{port}", "--model_name=reviews"]
        lines = wheels.run([*ask, "the film is great", "the film is dull"], home).stdout.splitlines()
        assert [json.loads(line)["label"] for line in lines] == ["good", "bad"]
    finally:
        server.terminate()
        assert server.wait(wheels.LIMIT_S) == 0


def _port(server, log):
    """Returns the server's gRPC port once it listens."""
    end = time.monotonic() + wheels.LIMIT_S
    while time.monotonic() < end and server.poll() is None:
        if match := re.search(r"gRPC on [^:]*:(\d+)", log.read_text()):
            return match[1]
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_the_grid_needs_no_checkout(home):
    write_glue(home / "glue", train=32, dev=8)
    start = ["--glue_dir=glue", "--tasks=cola", "--init_checkpoint=init", "--output_dir=grid", "--num_train_epochs=1"]
    wheels.run(["venv/bin/bert-tf", "run_glue", *start, "--", "--max_seq_length=32"], home)
    assert "matthews" in (home / "grid" / "results.tsv").read_text()
