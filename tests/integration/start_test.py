"""How little is imported before there is work to do: a start is quick because of what it leaves out."""

import json
import subprocess
import sys

from tests.conftest import ROOT

_STAGES = """
import contextlib, importlib, io, json, sys  # importlib is there before bert_tf is, too
there, stages = set(sys.modules), []

def note():
    stages.append(sorted(set(sys.modules) - there))
    there.update(sys.modules)

import bert_tf
note()
from bert_tf.cli import commands, main
with contextlib.redirect_stdout(io.StringIO()):
    main.main(["--help"])
note()
for name in main.PROGRAMS:
    commands.load_command(name)
note()
print(json.dumps(stages))
"""


def test_a_start_imports_next_to_nothing():
    """Of the standard library the slow ones by name: each of them was once half of the time."""
    done = subprocess.run([sys.executable, "-c", _STAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    package, listing, programs = json.loads(done.stdout)
    light = {"bert_tf", "bert_tf.utils", "bert_tf.utils.keras_names", "bert_tf.utils.onednn", "collections.abc"}
    assert set(package) <= light, "`import bert_tf`"
    ours = {name for name in listing if name.startswith("bert_tf")}
    cli = ("", ".main", ".commands", ".closed_output", ".output_encoding")
    listed = {"bert_tf.tasks", "bert_tf.tasks.built_in", *(f"bert_tf.cli{name}" for name in cli)}
    assert ours <= listed, "`bert-tf --help`"
    slow = {"asyncio", "concurrent", "difflib", "email", "http", "importlib.resources", "multiprocessing", "ssl"}
    assert not {name for name in listing if name.split(".")[0] in slow or name in slow}
    others = {name.split(".")[0] for name in (*listing, *programs)} - sys.stdlib_module_names
    assert others <= {"bert_tf", "absl"}, "`bert-tf NAME --help`, of every program"
