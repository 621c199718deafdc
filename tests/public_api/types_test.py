"""The public API is typed: every function has annotations, and type checkers find the names that are imported late."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tools.docs import tables

PACKAGES = ("bert_tf", "bert_tf.serving")  # those whose __init__.py imports a name when it is first used
# Keras calls these, and a user never does.
OF_KERAS = {
    "build", "call", "compute_output_spec", "from_config", "get_config", "load_assets", "save_assets", "trainable",
}  # fmt: skip
# Its signature stays on one line, so that encoder.py fits on few screens.
PARTLY = {"bert_tf.Encoder.__init__": ["gradient_checkpointing", "trainable", "embeddings", "kwargs", "return"]}
IN_STUBS = ("Client", "AsyncClient")  # of the stubs in serving/client, which mypy holds against the code
CALLED = ("__init__", "__call__", "__enter__", "__exit__", "__len__")


def public_names():
    listed = tables.names_in(tables.PAGE.read_text(encoding="utf-8"))
    given = [name for package in ("bert_tf", "bert_tf.inspect", "bert_tf.sklearn") for name in tables.public(package)]
    return sorted(name for name in {*listed, *given} if name.rpartition(".")[2] not in IN_STUBS)


def called_functions(node):
    """Returns the functions that a user of a class or function calls."""
    if isinstance(node, ast.FunctionDef):
        return [node]
    inner = [each for each in getattr(node, "body", []) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        each for each in inner if each.name in CALLED or not each.name.startswith("_") and each.name not in OF_KERAS
    ]


def bare_names(function):
    """Returns the parameters of a function that have no annotation, and "return" if its result has none."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    bare = [each.arg for each in every if each and each.annotation is None and each.arg not in ("self", "cls")]
    return bare + ["return"] * (function.returns is None)


def test_every_function_of_the_public_api_is_annotated():
    bare = {}
    for name in public_names():
        for function in called_functions(tables.find(name).node):
            bare[f"{name}.{function.name}"] = bare_names(function)
    assert {name: missing for name, missing in bare.items() if missing} == PARTLY
    assert "bert_tf.SentenceEncoder.__call__" in bare and "bert_tf.load.load" in bare


def imported(tree):
    """Returns {name: where it comes from} of the imports of a module."""
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {each.asname or each.name: f"{node.module}.{each.name}" for node in froms for each in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_checkers_read_the_names_that_a_package_imports_late(package):
    module = importlib.import_module(package)
    stub = ast.parse(pathlib.Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    late = {name: f"{home}.{name}" for name, home in module._HOMES.items()} | getattr(module, "_MODULES", {})
    assert imported(stub) == late
    (listed,) = (node.value for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed) == module.__all__


@pytest.mark.slow
def test_a_user_s_code_is_clean_under_strict():
    pytest.importorskip("mypy", reason="mypy is not installed: `make setup` with the current requirements.lock does")
    command = ["make", "--silent", "--assume-old=.venv/.complete", "types", f"PY={sys.executable}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
