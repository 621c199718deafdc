"""What the BUILD files say, read without Bazel: they are Starlark, which Python runs too.

`Builds(root).faults()` names what a build would fail on, or a test in Bazel's copy of the files.
"""

import collections
import dataclasses
import pathlib
import types

from tests.code_imports import imports, modules_in_strings, path_of

_FOLDERS = ("benchmarks", "bert_tf", "tests", "tools")  # elsewhere lie environments and results
_PROGRAMS = ("benchmarks/", "tests/")  # they start other programs, and name them in strings


@dataclasses.dataclass
class Target:
    """A rule, its labels made absolute.

    Attributes:
        package: the folder of its BUILD file, "" for the root.
        files: paths from the root of its own files, `srcs` and `data`; a target in `data` counts among `deps`.
        deps: labels of what it stands on.
        visibility: labels of who may stand on it, besides its own package.
        testonly: whether only tests may.
        twice: labels that stand twice in one of its lists, which Bazel refuses.
    """

    package: str
    files: list[str]
    deps: list[str]
    visibility: list[str]
    testonly: bool
    twice: list[str]


class Builds:
    """All targets of a checkout.

    Attributes:
        targets: label, such as "//bert_tf/data:data", -> Target.
        groups: label of a package_group -> its packages.
    """

    def __init__(self, root: pathlib.Path):
        self.root, self.targets, self.groups = root, {}, {}
        files = [root / "BUILD", *(file for folder in _FOLDERS for file in sorted((root / folder).rglob("BUILD")))]
        self.packages = {file.parent for file in files}
        for file in files:
            if file.exists():
                _Package(self, file.parent).run(file)

    def closure(self, label: str) -> set[str]:
        """Returns the files that a target sees: its own, and those of all it stands on."""
        seen, files, open_ = {label}, set(), [label]
        while open_:
            target = self.targets.get(open_.pop(), Target("", [], [], [], False, []))
            files.update(target.files)
            open_ += set(target.deps) - seen
            seen.update(target.deps)
        return files

    def faults(self) -> list[str]:
        """Returns a sentence for each fault: a dependency that is missing, unknown or not visible."""
        return [fault for label in self.targets for fault in (*self._wrong_labels(label), *self._missing(label))]

    def _wrong_labels(self, label):
        for dep in self.targets[label].deps:
            if dep not in self.targets:
                yield f"{label} depends on {dep}, which no BUILD file has"
            elif not self.visible(dep, self.targets[label].package):
                yield f"{label} depends on {dep}, whose visibility does not name //{self.targets[label].package}"
            elif self.targets[dep].testonly and not self.targets[label].testonly:
                yield f"{label} depends on {dep}, which is only for tests"
        for twice in self.targets[label].twice:
            yield f"{label} names {twice} twice in one list"

    def _missing(self, label):
        there = self.closure(label)
        for file in sorted(name for name in self.targets[label].files if name.endswith(".py")):
            for module in sorted(self._needed(file)):
                path = path_of(self.root, file, module)
                if path not in there:
                    yield f"{label}: {file} imports {module}, which no dep brings; add {self._providers(path, label)}"

    def _needed(self, file):
        found = imports(self.root, file)
        return found | modules_in_strings(self.root, file) if file.startswith(_PROGRAMS) else found

    def _providers(self, path, label):
        """Returns the labels that have a file, those first that the target may name."""
        package = self.targets[label].package
        have = [other for other, target in self.targets.items() if path in target.files and other != label]
        return " or ".join(sorted(have, key=lambda other: not self.visible(other, package))) or f"a target with {path}"

    def visible(self, label: str, package: str) -> bool:
        """Returns whether a package may name a target."""
        target = self.targets[label]
        return target.package == package or any(self._admits(entry, package) for entry in target.visibility)

    def _admits(self, entry, package):
        place, _, name = entry.removeprefix("//").partition(":")
        if name == "__pkg__" or name == "public" and place == "visibility":
            return name == "public" or package == place
        if name == "__subpackages__":
            return _below(package, place)
        return any(_below(package, p[:-4]) if p.endswith("/...") else package == p for p in self.groups[entry])


def _below(package, top):
    return not top or package == top or package.startswith(top + "/")


class _Package:
    """Runs one BUILD file; every rule in it becomes a `Target`."""

    def __init__(self, builds, folder):
        self.builds, self.folder = builds, folder
        self.name = folder.relative_to(builds.root).as_posix().removeprefix(".")
        self.default_visibility = []

    def run(self, file):
        exec(compile(file.read_text(encoding="utf-8"), file, "exec"), self._language())

    def _language(self):
        """Returns the names that Bazel gives to a BUILD file, and to what it loads."""
        rules = dict.fromkeys(("py_binary", "py_library", "py_test", "filegroup"), self._rule)
        names = {**rules, "load": self._load, "glob": self._glob, "package": self._package,
                 "package_group": self._group, "exports_files": lambda files, visibility=None: None,
                 "native": types.SimpleNamespace(package_name=lambda: self.name, glob=self._glob)}  # fmt: skip
        self.globals = names
        return names

    def _load(self, label, *names):
        if not label.startswith("@"):  # the rules of Python are Bazel's own, and known above
            place, _, name = label.removeprefix("//").partition(":")
            file = self.builds.root / place / name
            language = dict(self.globals)
            exec(compile(file.read_text(encoding="utf-8"), file, "exec"), language)
            self.globals.update({name: language[name] for name in names})

    def _glob(self, patterns, exclude=(), allow_empty=True):
        """Files below the folder that belong to no BUILD file further down."""
        inner = {folder for folder in self.builds.packages if self.folder in folder.parents}
        matched = {path for pattern in patterns for path in self._matches(pattern)}
        matched -= {path for pattern in exclude for path in self._matches(pattern)}
        return sorted(str(p.relative_to(self.folder)) for p in matched if not inner & set(p.parents))

    def _matches(self, pattern):
        pattern += "/*" if pattern.endswith("**") else ""
        return (path for path in self.folder.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)

    def _package(self, default_visibility):
        self.default_visibility = [self._label(entry) for entry in default_visibility]

    def _group(self, name, packages):
        self.builds.groups[self._label(f":{name}")] = [package.removeprefix("//") for package in packages]

    def _rule(self, name, srcs=(), deps=(), data=(), visibility=None, testonly=False, size=None, **kwargs):
        """`size` is what tests have and nothing else."""
        lists = [[*map(self._label, entries)] for entries in (srcs, data, deps)]
        labels = [*lists[0], *lists[1]]
        twice = [label for each in lists for label, count in collections.Counter(each).items() if count > 1]
        own = [label for label in labels if self._file(label)]
        visible = self.default_visibility if visibility is None else [self._label(entry) for entry in visibility]
        target = Target(
            self.name,
            [self._file(label) for label in own],
            [*lists[2], *(label for label in labels if label not in own)],
            visible, testonly or size is not None, twice)  # fmt: skip
        self.builds.targets[self._label(f":{name}")] = target

    def _label(self, entry):
        """Makes a label absolute: "name", ":name" and "//folder" become "//folder:name"."""
        if not entry.startswith("//"):
            return f"//{self.name}:{entry.removeprefix(':')}"
        return entry if ":" in entry else f"{entry}:{entry.rpartition('/')[2]}"

    def _file(self, label):
        """Returns the path from the root of the file that a label names, "" where it names a target."""
        path = label.removeprefix("//").replace(":", "/").removeprefix("/")
        return path if (self.builds.root / path).is_file() else ""
