"""Files that are not there: told before TensorFlow is imported, whatever the program, and only where they are read."""

import subprocess
import sys

import pytest

from bert_tf.cli.program import check_files
from bert_tf.utils.settings import Settings
from tests.conftest import ROOT

# Every program is given a file that is not there by each of its flags in turn, and all that it requires.
EVERY_PROGRAM = """
import importlib, io, contextlib, sys
from bert_tf.cli import program, main
from absl import logging
there = sys.argv[1]
for name in main.PROGRAMS:
    flags = {flag.name: flag for flag in importlib.import_module(f"bert_tf.cli.{name}").FLAGS}
    for read in program._READ:
        if read not in flags:
            continue
        required = [f"--{each}={flag.choices[0] if flag.choices else 'x'}" for each, flag in flags.items()
                    if flag.required and each not in program._READ]
        other = [f"--{each}={there}" for each in program._READ if each in flags and flags[each].required]
        actions = [f"--{each}" for each in ("do_train", "do_eval", "do_predict") if each in flags]
        try:
            main.start_program(name, [*required, *[flag for flag in other if not flag.startswith(f"--{read}=")],
                                      *actions, f"--{read}=no-such-file"])
        except SystemExit as end:
            print(name, read, end.code, "tensorflow" in sys.modules)
"""


def test_every_program_says_so_before_tensorflow_is_imported():
    command = [sys.executable, "-c", EVERY_PROGRAM, __file__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) > 40, done.stderr
    assert {(status, imported) for _, _, status, imported in found} == {("1", "False")}, found
    for name, read, *_ in found:
        assert f"--{read}" in done.stderr, (name, read)
    assert done.stderr.count("no-such-file") >= len(found)


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
