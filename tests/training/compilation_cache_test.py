"""The programs that XLA compiled are kept in a directory, and loaded by later processes."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.training import compilation_cache
from bert_tf.training.compilation_cache import default_directory, log_compilation_cache, use_compilation_cache
from tests import tiny

FLAG = "--tf_xla_persistent_cache_directory"


@pytest.fixture
def unused(monkeypatch):
    """A process in which TensorFlow has not been used yet; returns a function that reads the variable for XLA."""
    monkeypatch.setenv("TF_XLA_FLAGS", "")  # so that what a test sets is taken back
    monkeypatch.delenv("TF_XLA_FLAGS")
    monkeypatch.setattr(compilation_cache, "has_found_devices", lambda: False)
    return lambda: os.environ.get("TF_XLA_FLAGS")


def test_it_is_in_the_user_s_cache_directory_unless_it_is_named(unused, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    use_compilation_cache("auto")
    (own,) = (tmp_path / "a cache" / "bert_tf" / "xla").iterdir()
    assert unused() == f"{FLAG}='{own}'"
    assert own.name.startswith(f"{tf.__version__}-") and own.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".cache" / "bert_tf" / "xla"
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    use_compilation_cache(str(tmp_path / "mine"))
    assert unused().startswith(f"--tf_xla_auto_jit=2 {FLAG}='{tmp_path}/mine/")


def test_none_and_a_cache_of_the_user_s_own_leave_the_environment_as_it_is(unused, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    use_compilation_cache("none")
    assert unused() is None
    monkeypatch.setenv("TF_XLA_FLAGS", f"{FLAG}=/mine")
    use_compilation_cache("auto")
    assert unused() == f"{FLAG}=/mine" and not list(tmp_path.iterdir())


def test_where_tensorflow_was_used_before_it_says_so(unused, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(compilation_cache, "has_found_devices", lambda: True)
    with caplog.at_level("INFO"):
        use_compilation_cache(str(tmp_path))
        log_compilation_cache("none")
        assert unused() is None and not caplog.messages
        log_compilation_cache(str(tmp_path))
    assert "Set the environment variable TF_XLA_FLAGS=" in caplog.text


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_it_logs_how_many_programs_there_are(unused, monkeypatch, tmp_path, caplog, quote):
    (tmp_path / "xla_compile_cache__1.pb").touch()
    monkeypatch.setenv("TF_XLA_FLAGS", f"{FLAG}={quote}{tmp_path}{quote} --tf_xla_auto_jit=2")
    with caplog.at_level("INFO"):
        log_compilation_cache("auto")
    assert f"compiled programs in {tmp_path}, which has 1 program." in caplog.text


def test_tensorflow_knows_devices_once_it_has_looked_for_them():
    tf.config.list_physical_devices()
    assert compilation_cache.has_found_devices()


def test_each_version_and_processor_has_a_directory(unused, monkeypatch, tmp_path):
    for sets in ({"avx2"}, {"avx2", "amx_bf16"}, {"amx_bf16", "avx2"}):
        monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
        monkeypatch.setattr(compilation_cache.resources, "instruction_sets", lambda sets=sets: frozenset(sets))
        use_compilation_cache(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


def test_programs_that_were_unused_for_longest_are_deleted(unused, monkeypatch, tmp_path):
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 250)
    (tmp_path / "2.0-other").mkdir()
    for day, name in enumerate(("a", "b", "c", "d")):
        path = tmp_path / "2.0-other" / f"xla_compile_cache__{name}.pb"
        path.write_bytes(bytes(100))
        os.utime(path, (day, day))
    (tmp_path / "2.0-other" / "notes.txt").write_bytes(bytes(1000))
    use_compilation_cache(str(tmp_path))
    left = sorted(path.name for path in (tmp_path / "2.0-other").iterdir())
    assert left == ["notes.txt", "xla_compile_cache__c.pb", "xla_compile_cache__d.pb"]


def test_a_path_that_the_variable_cannot_hold(unused, tmp_path):
    with pytest.raises(ValueError, match="`compilation_cache_dir` must not have an apostrophe; got .*it's"):
        use_compilation_cache(str(tmp_path / "it's"))


def test_a_place_that_cannot_be_written_ends_a_run_only_if_it_was_named(unused, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    use_compilation_cache("auto")
    assert unused() is None and "XLA does not keep compiled programs: [Errno 20]" in caplog.text
    with pytest.raises(NotADirectoryError):
        use_compilation_cache(str(tmp_path / "file" / "programs"))


@pytest.mark.slow
def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    train, init = tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(32, 0)), tiny.checkpoint(tmp_path / "start")

    def run(name):
        flags = {"train_file": train, "init_checkpoint": init, "output_dir": tmp_path / name, "use_xla": "true",
                 "compilation_cache_dir": tmp_path / "programs", "max_seq_length": 16, "train_batch_size": 16,
                 "num_train_epochs": 1}  # fmt: skip
        words = [f"--{flag}={value}" for flag, value in flags.items()]
        command = [sys.executable, "-m", "bert_tf", "run_classifier", "--do_train", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stderr

    def programs():
        return {path.name: path.stat().st_mtime_ns for path in pathlib.Path(tmp_path / "programs").glob("*/*.pb")}

    first, made = run("first"), programs()
    assert made and ", which has 0 programs." in first and "XlaSerializedCacheEntry" not in first
    second = run("second")
    assert programs() == made  # nothing was compiled, or it would be kept too
    assert f", which has {len(made)} program" in second and "XlaSerializedCacheEntry" in second  # TensorFlow's error
    a, b = (read_tensors(str(tmp_path / name / "model.ckpt-2")) for name in ("first", "second"))
    assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
