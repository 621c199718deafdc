"""Tables of the reference: names with the first line of their docstring, and the versions that tests were run with.

    .venv/bin/python -m tools.docs.tables      # writes those of python_api.md and versions_and_hardware.md

In docs/reference/python_api.md a row begins with a name between backticks: `bert_tf.load`. Its second cell is filled in
here. Sources are read and not imported. In docs/reference/versions_and_hardware.md the table whose first column is
`Run with` is made from what `make test-versions` wrote to benchmarks/results/versions.json.
"""

import ast
import contextlib
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tools import versions
from tools.docs.navigation import ROOT

PAGE = ROOT / "docs" / "reference" / "python_api.md"
VERSIONS_PAGE = ROOT / "docs" / "reference" / "versions_and_hardware.md"
_ROW = re.compile(r"^\| \[?`(bert_tf\.[\w.]+)`(?:\]\([^)]*\))? \|[^|\n]*\|", re.MULTILINE)


class Home(NamedTuple):
    """Where a name is defined.

    Attributes:
        path: the file, from the top of the checkout.
        name: the name in full, as its own module has it: `bert_tf.checkpoints.loading.load`.
        node: its definition.
    """

    path: pathlib.PurePosixPath
    name: str
    node: ast.AST

    @property
    def summary(self) -> str:
        """The first line of its docstring, fit for a cell."""
        return (ast.get_docstring(self.node) or "").split("\n")[0].replace("|", "\\|")


# What `bert_tf` gives as a module of its own: public name -> where it is.
_MODULES = {"bert_tf.inspect": "bert_tf.interpret"}


@functools.cache
def _module(name: str) -> ast.Module | None:
    path = _file(name)
    return ast.parse(path.read_text(encoding="utf-8")) if path else None


def _file(module):
    module = _MODULES.get(module, module)
    stem = ROOT / module.replace(".", "/")
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.exists()), None)


def _given_on(module: ast.Module) -> dict[str, str]:
    """Returns {public name: full name where it is defined} of a package's __init__.py: its imports, and `_HOMES`."""
    names = {}
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            names.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            names.update({name: f"{home}.{name}" for name, home in ast.literal_eval(node.value).items()})
    return names


def public(package: str) -> list[str]:
    """Returns `__all__` of a package, each name with the package's in front."""
    for node in _module(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [f"{package}.{name}" for name in ast.literal_eval(node.value)]
    return []


def find(name: str) -> Home:
    """Returns where a dotted name is defined, a module, a class, a function or a method.

    Raises:
        ValueError: nowhere.
    """
    if module := _module(name):
        return Home(_relative(name), name, module)
    outer, _, last = name.rpartition(".")
    if not outer:
        raise ValueError(f"A name must be defined in bert_tf; got {name!r}, which is not.")
    if (module := _module(outer)) and last in _given_on(module):
        return find(_given_on(module)[last])
    around = find(outer)
    for node in reversed(around.node.body):  # of a function with several signatures, the last has its docstring
        if getattr(node, "name", None) == last or last in _targets(node):
            return Home(around.path, f"{around.name}.{last}", node)
    for base in _bases(around):
        with contextlib.suppress(ValueError):
            return find(f"{base}.{last}")
    raise ValueError(f"A name must be defined in bert_tf; got {name!r}; {around.path} has no {last!r}.")


def _bases(home):
    """Yields the full names of the classes of bert_tf from which a class inherits."""
    module = home.name.rpartition(".")[0]
    for base in map(ast.unparse, getattr(home.node, "bases", [])):
        first, _, rest = base.partition(".")
        full = _given_on(_module(module)).get(first, f"{module}.{base}")
        if full.startswith("bert_tf.") and not rest:
            yield full


def _targets(node):
    if isinstance(node, ast.Assign):
        return [ast.unparse(each) for each in node.targets]
    return [ast.unparse(node.target)] if isinstance(node, ast.AnnAssign) else []


def _relative(module):
    return pathlib.PurePosixPath(_file(module).relative_to(ROOT).as_posix())


def filled(text: str) -> str:
    """Returns a page with the tables' first two cells as they should be."""
    return _ROW.sub(lambda match: _row(match[1]), text)


def names_in(text: str) -> list[str]:
    """Returns the names that a page's tables have, in order."""
    return [match[1] for match in _ROW.finditer(text)]


def _row(name):
    home = find(name)
    return f"| [`{name}`](../../{home.path}) | {home.summary} |"


# === Versions ===


_COLUMNS = {"tensorflow": "TensorFlow", "tensorflow-text": "tensorflow-text", "keras": "Keras", "protobuf": "protobuf",
            "numpy": "NumPy"}  # fmt: skip
_RUNS = re.compile(r"^\| Run with \|.*\n(?:\|.*\n)+", re.MULTILINE)


def runs_table(entries: Iterable[Mapping[str, Any]]) -> str:
    """Returns the table of what `tools.versions` ran, one line for each entry of its file."""
    heads = ["Run with", *_COLUMNS.values(), "Tests", "Passed", "Failed", "Skipped", "Exports of the others", "Date"]
    lines = [heads, ["---"] * len(heads)]
    for entry in sorted(entries, key=lambda each: each["name"]):
        found = entry["versions"]
        worst = max(entry["exports"].values(), default=0.0)
        exports = "same answers" if worst <= versions.TOLERANCE else f"differ by {worst:.1g}"
        exports = exports if entry["exports"] else "not run"
        tests = "all fast ones" if entry["tests"] == versions.ALL else "some"
        counts = [entry["passed"], len(entry["failed"]), sum(entry["skipped"].values())]
        lines.append(
            [f"Python {found['python']}", *(found[name] for name in _COLUMNS), tests, *counts, exports, entry["date"]]
        )
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def with_runs(text: str) -> str:
    """Returns the page of versions with its table as it should be."""
    entries = json.loads(versions.RESULTS.read_text(encoding="utf-8"))
    return _RUNS.sub(lambda _: runs_table(entries), text)


def main():
    """Writes the pages anew."""
    for page, change in ((PAGE, filled), (VERSIONS_PAGE, with_runs)):
        page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
