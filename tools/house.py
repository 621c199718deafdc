"""Prints how large and how simple the code is, counted: `python -m tools.house [FOLDER]`, of a checkout."""

import ast
import collections
import pathlib
import statistics
import sys

PACKAGE = "bert_tf"


def read(root: pathlib.Path, folder: str) -> dict[str, tuple[str, ast.Module]]:
    """Returns {module: (its text, its tree)} of all Python files below a folder that are not empty."""
    found = {}
    for path in sorted((root / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = text, ast.parse(text)
    return found


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """Returns which of the modules a file imports, by whichever form and wherever it stands."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names & modules


def packages(root: pathlib.Path) -> list[str]:
    return sorted(path.parent.name for path in (root / PACKAGE).glob("*/__init__.py"))


def with_one_importer(files: dict[str, tuple[str, ast.Module]]) -> list[str]:
    """Returns the modules that only one other imports, which is in the same package."""
    importers = collections.defaultdict(set)
    for module, (_, tree) in files.items():
        for name in imported(tree, set(files)) - {module}:
            importers[name].add(module)

    def package(module):
        return module.split(".")[1:2]

    return [name for name, by in importers.items() if len(by) == 1 and package(min(by)) == package(name) != []]


def functions(files: dict[str, tuple[str, ast.Module]]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = (node for _, tree in files.values() for node in ast.walk(tree))
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines of a function's body without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def class_names(files: dict[str, tuple[str, ast.Module]]) -> collections.Counter:
    nodes = (node for _, tree in files.values() for node in tree.body)
    return collections.Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))


def flags(files: dict[str, tuple[str, ast.Module]]) -> set[str]:
    """Returns the names in `Flag("name", ...)` and in fields `name: kind = option(...)`."""
    names = set()
    for node in (node for _, tree in files.values() for node in ast.walk(tree)):
        if isinstance(node, ast.AnnAssign) and getattr(getattr(node.value, "func", None), "id", "") == "option":
            names.add(node.target.id)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Flag":
            names |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
    return names


def measure(root: pathlib.Path) -> dict[str, int | float | str]:
    """Returns {what: how many} of a checkout."""
    ours, tests = read(root, PACKAGE), read(root, "tests")
    sizes = [text.count("\n") for text, _ in ours.values()]
    all_functions = functions(ours)
    short = sum(body_lines(each) <= 2 for each in all_functions)
    twice = [name for name, count in class_names(ours).items() if count > 1]
    loose = [path.name for path in (root / PACKAGE).glob("*.py") if not path.name.startswith("__")]
    builds = [path for path in root.rglob("BUILD") if not path.relative_to(root).parts[0].startswith(".")]
    return {
        f"Python files of {PACKAGE}": sum(1 for _ in (root / PACKAGE).rglob("*.py")),
        f"lines of {PACKAGE}": sum(sizes),
        "lines of tests": sum(text.count("\n") for text, _ in tests.values()),
        "lines of the median file": statistics.median(sizes),
        "packages": len(packages(root)),
        "loose modules beside __init__ and __main__": len(loose),
        "modules with one importer, in their own package": len(with_one_importer(ours)),
        "functions": len(all_functions),
        "of these with a body of at most two lines": f"{short / len(all_functions):.0%}",
        "class names used twice": len(twice),
        "BUILD files": len(builds),
        "flags": len(flags(ours)),
    }


def main():
    root = pathlib.Path(*(sys.argv[1:] or ["."]))
    for what, count in measure(root).items():
        print(f"{what:48}{count:>8}")


if __name__ == "__main__":
    main()
