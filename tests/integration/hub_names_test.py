"""Commands with a model's name on the Hugging Face Hub do what they do with its directory."""

import os
import subprocess
import sys

import numpy as np
import pytest

import bert_tf
from tests import tiny
from tests.checkpoints.hub_server import HubServer
from tests.conftest import ROOT

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install 'bert-tf[hub]'")


def _run(words, folder, **environment):
    command = [sys.executable, "-m", "bert_tf", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_embedding_training_and_conversion_by_name(tmp_path):
    bert_tf.save(bert_tf.load(tiny.checkpoint(tmp_path / "tf1")), tmp_path / "local", "sentence_transformers")
    local = tmp_path / "local"
    paths = [path for path in local.rglob("*") if path.is_file()]
    files = {path.relative_to(local).as_posix(): path.read_bytes() for path in paths}
    tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(16))
    with HubServer() as server:
        server.models["org/name"] = {"main": {"README.md": b"#", "model.py": b"raise", **files}}
        given = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        for model in ("local", "org/name"):
            out = model.replace("/", "-")
            for words in (
                ["embed", f"--model={model}", "--input_file=train.tsv", f"--output_file={out}.npz"],
                ["run_classifier", "--do_train", "--train_file=train.tsv", f"--init_checkpoint={model}", "--seed=3",
                 "--num_train_epochs=1", "--train_batch_size=8", "--max_seq_length=8", f"--output_dir={out}-run"],
                ["convert", f"--from={model}", f"--to={out}-tf1", "--format=tf1"],
            ):  # fmt: skip
                status, log = _run(words, tmp_path, **given)
                assert status == 0, log
        words = ["embed", "--model=org/nam", "--input_file=train.tsv", "--output_file=none.npz"]
        status, log = _run(words, tmp_path, **given)
    assert status == 1 and "org/nam is neither a local path nor the name of a model" in log and "Traceback" not in log
    assert not {"README.md", "model.py"} & {file for _, file in server.asked}
    ours, theirs = (np.load(tmp_path / f"{out}.npz") for out in ("local", "org-name"))
    assert ours.files == theirs.files and all(np.array_equal(ours[name], theirs[name]) for name in ours.files)
    for end in ("-run", "-tf1"):
        ours, theirs = (bert_tf.load(tmp_path / f"{out}{end}").arrays() for out in ("local", "org-name"))
        assert ours.keys() == theirs.keys() and all(np.allclose(ours[path], theirs[path], atol=1e-6) for path in ours)
