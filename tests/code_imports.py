"""What a Python file of ours needs of ours: what it imports, and the programs that it names in order to start them."""

import ast
import functools
import pathlib
import re

import bert_tf

_NAME = re.compile(r"\b(?:bert_tf|tests)(?:\.\w+)+|\brun_\w+")
_CODE = re.compile(r"\bimport |-m ")  # code for another process, or a command line


def walk(tree: ast.AST):
    """Yields a node and all below it, each before those below it: faster than ast.walk, and there are many files."""
    open_ = [tree]
    while open_:
        node = open_.pop()
        yield node
        for value in node.__dict__.values():
            if isinstance(value, list):
                open_ += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                open_.append(value)


def path_of(root: pathlib.Path, file: str, module: str) -> str:
    """Returns the path from the root of a module that `file` names, "" where it is none of ours."""
    return _path_in(root, file.rpartition("/")[0], module)


@functools.cache
def _path_in(root, parent, module):
    path = module.replace(".", "/")
    # Programs of benchmarks/ import one another without the folder's name, and so do tests of them.
    for folder in ("", parent + "/", "benchmarks/"):
        for ending in (".py", "/__init__.py"):
            if (root / f"{folder}{path}{ending}").is_file():
                return f"{folder}{path}{ending}"
    return ""


@functools.cache
def imports(root: pathlib.Path, file: str) -> set[str]:
    """Returns the dotted names of our modules that a file imports anywhere, and of the packages that they lie in."""
    found = set()
    for node in _nodes(root / file):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bert_tf":
            found.add(bert_tf._HOMES.get(node.attr, f"bert_tf.{node.attr}"))  # imported when it is asked for
    return {part for name in found for part in _ours(root, file, name)}


@functools.cache
def modules_in_strings(root: pathlib.Path, file: str) -> set[str]:
    """Returns the modules that strings name: as a whole, or in code for another process. Docstrings say more."""
    nodes, found = _nodes(root / file), set()
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            names = _NAME.findall(node.value)
            if names and (node.value.removesuffix(".py") == names[0] or _CODE.search(node.value)):
                found.update(names)
    return {part for name in found for part in _ours(root, file, name)}


_TELLING = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Expr, ast.Constant)


@functools.lru_cache(maxsize=1)  # asked for twice in a row; all trees together would be a gigabyte
def _nodes(path):
    return [node for node in walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, _TELLING)]


def _ours(root, file, name):
    """Returns what a name makes Python import: a.b.C means a, a.b and a.b.C."""
    parts = name.split(".")
    heads = [".".join(parts[: n + 1]) for n in range(len(parts))]
    return [head for head in heads if path_of(root, file, head)]
