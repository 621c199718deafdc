"""Files that are not there: told before TensorFlow is imported, whatever the program, and only where they are read."""

import os
import re
import subprocess
import sys

import pytest

from bert_tf.cli.given_files import check_files, check_output_paths
from bert_tf.utils.settings import Settings
from tests.conftest import ROOT

# Every program is given all that it requires and, by each of its flags in turn, a file that is not there or an output
# that is inside a file.
EVERY_PROGRAM = """
import sys
from bert_tf.cli import commands, given_files, main
there = sys.argv[1]
written = [*given_files._WRITTEN_FILES, *given_files._WRITTEN_FOLDERS]
for name in main.PROGRAMS:
    flags = {flag.name: flag for flag in commands.load_command(name).FLAGS}
    for wrong in [*given_files._READ, *written, *["index_dir"] * ("update" in flags)]:
        if wrong not in flags:
            continue
        value = "no-such-file" if wrong in given_files._READ else f"{there}/no-such-file"
        words = {each: flag.choices[0] if flag.choices else there if each in given_files._READ else f"x-{each}"
                 for each, flag in flags.items() if flag.required} | {wrong: value}
        actions = [f"--{each}" for each in ("do_train", "do_eval", "do_predict") if each in flags]
        try:
            main.start_program(name, [*actions, *[f"--{each}={word}" for each, word in words.items()]])
        except SystemExit as end:
            print(name, wrong, end.code, "tensorflow" in sys.modules)
"""


def test_every_program_says_so_before_tensorflow_is_imported(tmp_path):
    command = [sys.executable, "-c", EVERY_PROGRAM, __file__]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) > 90, (len(found), done.stderr)
    assert {(status, imported) for _, _, status, imported in found} == {("1", "False")}, found
    for name, flag, *_ in found:
        assert f"--{flag}" in done.stderr, (name, flag)
    assert done.stderr.count("no-such-file") >= len(found)
    assert not os.listdir(tmp_path)

# To root the kernel says that /proc does not exist, to others that it is not writable.
NONE_IN_PROC = r": (no files can be created in /proc\. Choose|/proc: Permission denied\. Make)"


def test_outputs_are_tried_without_a_trace(tmp_path, caplog):
    """Permissions do not tell everything: /proc, which nobody can write to, has them."""
    caplog.set_level("INFO")
    values = {"output_dir": str(tmp_path / "a/b"), "output_file": str(tmp_path / "c/d.txt"), "export_file": None}
    for _ in range(2):
        check_output_paths(Settings(values))
    assert os.listdir(tmp_path) == ["c"] and not os.listdir(tmp_path / "c")
    assert [each.getMessage() for each in caplog.records] == [f"Created the directory {tmp_path}/c for `output_file`."]
    (tmp_path / "file").touch()
    for name, path, why in (
        ("output_dir", "/proc/none/x", NONE_IN_PROC), ("output_dir", tmp_path / "file", "file: Not a directory. Make"),
        ("output_file", tmp_path / "file/x", "file: Not a directory"), ("output_file", tmp_path, "is a directory. N"),
        ("to", "/proc/x", NONE_IN_PROC),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"`{name}` .*{re.escape(str(path))}.*{why}"):
            check_output_paths(Settings({name: str(path)}))
    for values in ({"output_file": ["gs://bucket/records"]}, {"output_file": "/proc/x", "runner": "FlinkRunner"},
                   {"index_dir": "/proc/x"}):  # fmt: skip
        check_output_paths(Settings(values))


@pytest.mark.parametrize("name", ["output_dir", "output_file"])
def test_a_dry_run_warns_of_an_output_that_cannot_be_written_and_creates_nothing(tmp_path, caplog, name):
    (tmp_path / "file").touch()
    for path in ("file/x", "new/x"):
        check_output_paths(Settings({name: str(tmp_path / path), "dry_run": True}))
    assert os.listdir(tmp_path) == ["file"]
    (warning,) = (each.getMessage() for each in caplog.records)
    assert warning.startswith(f"Without `dry_run`, this command would fail: Cannot write to `{name}` {tmp_path}/file/x")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"train_file": "gone.tsv", "do_train": True}, "File not found: gone.tsv .`train_file`.. Check"),
        ({"train_file": "gone.tsv"}, "File not found: gone.tsv"),  # of a program that has no actions
        ({"train_file": "gone.tsv", "do_train": False, "dry_run": True}, "File not found: gone.tsv"),
        ({"train_file": f"{__file__},gone-*.tsv"}, r"File not found: gone-\*.tsv .`train_file`"),
        ({"train_file": f"{__file__},{__file__}"}, None),
        ({"input_file": ["*.none"]}, r"No file matches `input_file=\*.none`\. Check its spelling"),
        ({"train_file": "gone.tsv", "do_train": False, "do_predict": True}, None),
        ({"input_file": ["gs://bucket/records"]}, None),
        ({"input_file": ["."]}, None),
        ({"vocab_file": None}, None),
        ({"output_file": "gone.txt"}, None),
    ],
)
def test_what_would_be_read(values, told):
    settings = Settings(values, values)
    if told is None:
        check_files(settings)
        return
    with pytest.raises(ValueError, match=told):
        check_files(settings)
