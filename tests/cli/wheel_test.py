"""The wheel alone, outside any checkout: what the README says of training, exporting, serving and asking."""

import json
import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import time

import pytest

from tests import tiny
from tests.conftest import ROOT
from tests.experiments.glue.glue_folder import write_glue

pytestmark = pytest.mark.slow
LIMIT_S = 300


def _run(command, folder):
    """Runs a command that must succeed; returns it."""
    ended = subprocess.run(list(map(str, command)), cwd=folder, env=_environment(), text=True, timeout=LIMIT_S,
                           capture_output=True, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended


def _environment():
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, made of a copy, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "bert_tf", source / "bert_tf", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    _run([sys.executable, "-m", "pip", "wheel", *options, source], folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def home(wheel, tmp_path_factory):
    """A folder with an environment, `venv`: bert_tf comes from the wheel, what it needs from the one we are in.

    Its site-packages name ours in a .pth file. The .pth files there, such as that of an editable bert_tf, are not read.
    """
    folder = tmp_path_factory.mktemp("home")
    _run([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    _run(install, folder)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "needed.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    where = _run([python, "-c", "import bert_tf; print(bert_tf.__file__)"], folder).stdout.strip()
    assert pathlib.Path(where).is_relative_to(folder)
    tiny.checkpoint(folder / "init")
    for name, seed in (("train", 0), ("test", 1)):
        tiny.write_tsv(folder / f"{name}.tsv", tiny.texts(96, seed, names=("bad", "good")))
    return folder


def test_the_programs_are_listed(home):
    listed = _run(["venv/bin/bert-tf"], home).stdout
    assert "  train classifier " in listed
    assert _run(["venv/bin/python", "-m", "bert_tf"], home).stdout == listed


def test_from_a_table_to_an_answer(home):
    train = ["--train_file=train.tsv", "--eval_file=test.tsv", "--init_checkpoint=init", "--output_dir=output"]
    rates = ["--max_seq_length=32", "--train_batch_size=16", "--learning_rate=2e-3", "--num_train_epochs=10"]
    _run(["venv/bin/bert-tf", "run_classifier", *train, *rates, "--do_train", "--do_eval"], home)
    assert float(re.search(r"eval_accuracy = (.*)", (home / "output" / "eval_results.txt").read_text())[1]) > 0.9
    _run(["venv/bin/bert-tf", "export", "--model=output", "--export_dir=models/reviews"], home)
    ports = ["--port=0", "--rest_api_port=0"]
    serve = ["venv/bin/bert-tf", "serve", "--model_base_path=models/reviews", "--model_name=reviews", *ports]
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(serve, cwd=home, env=_environment(), stdout=log, stderr=log)
    try:
        port = _port(server, home / "server.log")
        ask = ["venv/bin/bert-tf", "ask", f"--server=localhost:{port}", "--model_name=reviews"]
        lines = _run([*ask, "the film is great", "the film is dull"], home).stdout.splitlines()
        assert [json.loads(line)["label"] for line in lines] == ["good", "bad"]
    finally:
        server.terminate()
        assert server.wait(LIMIT_S) == 0


def _port(server, log):
    """Returns the server's gRPC port once it listens."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and server.poll() is None:
        if match := re.search(r"gRPC on [^:]*:(\d+)", log.read_text()):
            return match[1]
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_the_grid_needs_no_checkout(home):
    write_glue(home / "glue", train=32, dev=8)
    start = ["--glue_dir=glue", "--tasks=cola", "--init_checkpoint=init", "--output_dir=grid", "--num_train_epochs=1"]
    _run(["venv/bin/bert-tf", "run_glue", *start, "--", "--max_seq_length=32"], home)
    assert "matthews" in (home / "grid" / "results.tsv").read_text()
