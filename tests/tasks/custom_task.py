"""The package of docs/guides/custom_tasks.md, in a folder as an installer would lay it out."""

import pathlib
import re
import sys

from tests import toml
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "guides" / "custom_tasks.md"


def _block(language):
    """Returns the first block of code in a language."""
    text, *_ = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return text


def write_metadata(folder: pathlib.Path, package: str, points: dict[str, str]):
    """Writes what an installer leaves of a package's entry points: {name: "module:attribute"} of `bert_tf.tasks`."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    lines = ["[bert_tf.tasks]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_package(folder: pathlib.Path):
    """Writes the page's package and its metadata to a folder."""
    project = toml.loads(_block("toml"))["project"]
    write_metadata(folder, project["name"], project["entry-points"]["bert_tf.tasks"])
    (folder / "my_tasks").mkdir()
    (folder / "my_tasks" / "rating.py").write_text(_block("python"), encoding="utf-8")


def install(folder: pathlib.Path, monkeypatch):
    """Writes the page's package to a folder, and puts that on the path for one test."""
    write_package(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("my_tasks", "my_tasks.rating"):
        monkeypatch.delitem(sys.modules, name, raising=False)
