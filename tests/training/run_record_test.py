"""The record of a run: what made it, by values, versions, commit and hashes."""

import hashlib
import json
import os
import subprocess
import types

import numpy as np
import pytest

from bert_tf.training.history import History
from bert_tf.training.run_record import PACKAGES, RunRecord, commit, fingerprints
from bert_tf.utils.package_versions import package_versions
from tests import tiny


def _git(folder, *words):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", os.fspath(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_and_whether_it_is_all(tmp_path):
    assert commit(tmp_path) is None
    try:
        _git(tmp_path, "init", "--quiet")
    except FileNotFoundError:
        pytest.skip("needs git")
    assert commit(tmp_path) is None  # there is none yet
    (tmp_path / "a.py").write_text("1\n")
    _git(tmp_path, "add", "a.py")
    _git(tmp_path, "commit", "--quiet", "-m", "One")
    assert commit(tmp_path) == {"commit": _git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a.py").write_text("2\n")
    assert commit(tmp_path)["dirty"]
    _git(tmp_path, "checkout", "--quiet", "a.py")
    (tmp_path / "new.py").write_text("3\n")
    assert commit(tmp_path)["dirty"]
    (tmp_path / "inside").mkdir()
    assert commit(tmp_path / "inside") is None  # the folder above is somebody else's


def test_hashes_of_files(tmp_path):
    content = np.random.default_rng(0).bytes(3 * 2**20)
    (tmp_path / "large").write_bytes(content)
    (tmp_path / "small").write_bytes(b"abc")
    large, small = (str(tmp_path / name) for name in ("large", "small"))
    whole = fingerprints({"train": [large], "dev": [small, large]})
    in_full = hashlib.sha256(content).hexdigest()
    assert whole["train"] == [{"file": large, "bytes": 3 * 2**20, "sha256": in_full}] == whole["dev"][1:]
    assert whole["dev"][0]["sha256"] == hashlib.sha256(b"abc").hexdigest()
    ends = fingerprints({"train": [large, small]}, most=2**20)["train"]
    expected = hashlib.sha256(content[: 2**20] + content[-(2**20) :]).hexdigest()
    assert [each["sha256_of_ends"] for each in ends] == [expected, hashlib.sha256(b"abc").hexdigest()]
    assert "sha256" not in ends[0]
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert fingerprints({"train": [pipe]}) == {"train": [{"file": pipe}]}  # and it does not wait for one who writes


def test_a_run_that_starts_writes_it(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n")
    tokenizer = types.SimpleNamespace(vocab_file=str(vocab), vocab_size=1)
    settings = {"seed": 0, "learning_rate": 1e-4, "input_file": ["a"]}
    known = tiny.config(), tokenizer, {"train": [str(vocab)]}, {"seed": 0}
    record = RunRecord("task", settings, ["learning_rate"], *known)
    out = tmp_path / "out"
    out.mkdir()
    history = History(str(out), {}, record=record)
    assert not list(out.iterdir())
    for step in (0, 7):  # that of the latest start stays
        history.start(step, None)
    told = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert (told["task"], told["step"], told["from"]) == ("task", 7, None)
    assert told["settings"] == {"input_file": ["a"], "learning_rate": 1e-4, "seed": 0}
    assert told["given"] == ["learning_rate"] and told["identity"] == {"seed": 0}
    assert (
        told["model"] == tiny.config().to_dict()
        and told["versions"] == package_versions(PACKAGES)
        and told["git"] == commit()
    )
    digest = hashlib.sha256(b"[PAD]\n").hexdigest()
    assert told["vocabulary"] == {"tokens": 1, "file": str(vocab), "sha256": digest}
    assert told["data"]["train"][0]["sha256"] == digest
    assert told["machine"]["devices"] and told["machine"]["precision"] == "float32" and told["machine"]["replicas"] == 1


def test_versions_of_what_is_there():
    assert {"python", "bert_tf", "tensorflow", "keras", "numpy", "tensorflow-text", "h5py"} <= package_versions(
        PACKAGES
    ).keys()


def test_a_file_that_changed_while_a_run_was_stopped_is_named(tmp_path):
    files = {split: [str(tmp_path / split)] for split in ("train", "dev", "test")}
    for split in files:
        (tmp_path / split).write_text("abc")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("a\n")
    tokenizer = types.SimpleNamespace(vocab_file=str(vocab), vocab_size=1)

    def history(**changed):
        read = {**files, **changed}
        record = RunRecord("task", {}, [], tiny.config(), tokenizer, read, {"num_train_steps": 8})
        return History(os.fspath(tmp_path), {}, record=record)

    history().start(0, None)
    history().start(4, None)
    (tmp_path / "dev").write_text("abd")  # of the same size
    before = (tmp_path / "history.jsonl").read_bytes(), (tmp_path / "run.json").read_bytes()
    with pytest.raises(ValueError) as error:
        history().start(4, None)
    then, now = (hashlib.sha256(text).hexdigest() for text in (b"abc", b"abd"))
    assert str(error.value) == (
        f"A run can only resume with the files that it began with ({tmp_path}/run.json). Changed: {tmp_path}/dev "
        f"sha256: '{then}' before, '{now}' now. Restore them, use another `output_dir`, or pass "
        "`overwrite_output_dir` to start over."
    )
    assert before == ((tmp_path / "history.jsonl").read_bytes(), (tmp_path / "run.json").read_bytes())
    (tmp_path / "other").write_text("else")
    history(dev=[str(tmp_path / "other")]).start(4, None)  # another file may be scored on
    (tmp_path / "other").write_text("more")
    history(dev=[str(tmp_path / "other")]).start(8, None)  # and by a finished run anything
    history(dev=[str(tmp_path / "dev")]).start(0, None)  # a run that begins anew knows of none before
