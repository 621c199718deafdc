"""Docstrings and comments mention modules and names that exist."""

import ast
import functools
import io
import os
import re
import tokenize

import pytest

import bert_tf
from tests.code_imports import walk
from tests.conftest import ROOT
from tests.contracts_test import PACKAGES

pytestmark = pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel shows a test only some of the files")

# Files of other projects, whose algorithms ours follow.
_OF_OTHERS = {
    "modeling.py", "optimization.py", "tokenization.py", "run_classifier_with_tfhub.py", "masked_language_model.py",
    "replaced_token_detection_model.py", "configure_pretraining.py", "training_utils.py", "configuration.py",
    "tensorflow_model_server_test.py", "setup.py", "1.py", "0.py",  # evaluate-v1.1.py
}  # fmt: skip
_FILE = re.compile(r"[\w/]*\w\.py\b")
_NAME = re.compile(rf"`((?:bert_tf|{'|'.join(PACKAGES)})(?:\.\w+)+)`")


def _sources():
    return [path for folder in ("bert_tf", "tests", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py")]


def _texts(source):
    """Yields the comments and docstrings of a file's text, if it may mention any."""
    mentioning = [line for line in source.splitlines() if _FILE.search(line) or _NAME.search(line)]
    if not mentioning:
        return  # parsing is slow
    if any("#" in line for line in mentioning):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    for node in walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


@functools.cache
def _defined(file):
    """Returns the names that a module defines or imports."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _exists(name):
    """Whether a dotted name, with or without `bert_tf`, is a module or a name in one."""
    parts = name.removeprefix("bert_tf.").split(".")
    if parts[0] in bert_tf.__all__:
        return True
    for end in range(len(parts), 0, -1):
        path = ROOT / "bert_tf" / "/".join(parts[:end])
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if file.exists():
            return end == len(parts) or parts[end] in _defined(file)
    return False


def test_files_and_names_that_are_mentioned_exist():
    sources = _sources()
    files = {path.name for path in [*sources, *ROOT.glob("*.py")]} | _OF_OTHERS
    wrong = []
    for path in sources:
        text = "\n".join(_texts(path.read_text(encoding="utf-8")))
        missing = {name for name in _FILE.findall(text) if name.rpartition("/")[2] not in files}
        if path.is_relative_to(ROOT / "bert_tf"):  # tests have modules of the same names as packages
            missing |= {name for name in _NAME.findall(text) if not _exists(name)}
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(missing)]
    assert not wrong, "\n".join(wrong)


def test_a_name_that_is_gone_is_found():
    assert _exists("tasks.base.FineTuningTask") and _exists("bert_tf.load") and _exists("bert_tf.tasks.options")
    assert not _exists("tasks.task.FineTuned") and not _exists("bert_tf.gone") and not _exists("utils.files.gone")
