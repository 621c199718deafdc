"""The tutorials, cut into cells: those in Python to be run, and all in `NOTEBOOKS` to be written as notebooks.

The pages are those of docs/tutorials that contain only Python and, of those with commands (commands.py), the ones that
a notebook can run. A block of ```python or ```bash is a code cell; a block of ```text right after it is what it
printed; everything else is prose.

A notebook needs no checkout (`make notebooks` writes it): its first cell installs bert_tf if it is missing. A notebook
for the shell starts with the weights, and contains the files of docs/tutorials/data that its page copies.
"""

import contextlib
import io
import json
import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docs" / "tutorials"
_CODE = re.compile(
    r"^(?:<!-- ([^\n]*) -->\n+)?```(python|bash)\n(.*?)^```\n(?:\n(?:<!-- [^\n]* -->\n+)?```text\n(.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_COPY = re.compile(r"cp -r docs/tutorials/data/(\w+) \.\n")
_BASH = "%%bash -e\n"  # a cell for the shell; it ends at the first command that fails
SHELL_NOTEBOOKS = ("embeddings_and_search", "first_fine_tuning", "tagging")
INSTALL = """\
# Install bert_tf if it is missing, as on Colab: from a wheel next to this notebook, or else from the package index.
import importlib.util
import pathlib

if importlib.util.find_spec("bert_tf") is None:
    package = max(map(str, pathlib.Path().glob("bert_tf-*.whl")), default="bert-tf")
    %pip install --quiet '{package}[all]'"""
SETUP = """\
# Download the weights of MiniLM, unless they exist, and put the command `bert-tf` on the PATH.
import os
import pathlib
import sysconfig

from bert_tf.experiments.demo.data import prepare_weights

weights = pathlib.Path("demo/weights/minilm")
if not weights.exists():
    prepare_weights(weights)
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])"""


class Cell(NamedTuple):
    """A cell: prose, or code with what it printed."""

    text: str
    is_code: bool
    output: str = ""


def pages(language: str = "python") -> list[pathlib.Path]:
    """Returns the pages with code in a language, sorted: "bash", perhaps with blocks of Python; or "python" alone."""
    texts = {page: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
    return [
        page
        for page, text in texts.items()
        if f"```{language}\n" in text and (language == "bash" or "```bash\n" not in text)
    ]


def notebook_pages() -> list[pathlib.Path]:
    """Returns the pages that are notebooks, too, sorted."""
    return sorted([*pages(), *(FOLDER / f"{name}.md" for name in SHELL_NOTEBOOKS)])


def cells(page: pathlib.Path) -> list[Cell]:
    """Returns a page's cells, in order; prose between two of code is one. Code that is not run counts as prose."""
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for match in _CODE.finditer(text):
        mark, language, code, output = match.groups()
        if not (mark or "").startswith("not run"):
            code = _BASH + code if language == "bash" else code
            found += [Cell(text[end : match.start()], False), Cell(code, True, output or "")]
            end = match.end()
    found.append(Cell(text[end:], False))
    return [cell._replace(text=cell.text.strip("\n")) for cell in found if cell.text.strip()]


def run(page: pathlib.Path) -> tuple[list[str], dict]:
    """Runs a page's code, from its top, in the working directory.

    Returns:
        what each cell of code printed, and the names that they left.
    """
    printed, names = [], {}
    for number, cell in enumerate(cell for cell in cells(page) if cell.is_code):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(cell.text, f"{page.name}, cell {number + 1}", "exec"), names)
        printed.append(output.getvalue())
    return printed, names


def notebook_cells(page: pathlib.Path) -> list[Cell]:
    """Returns the cells of a page's notebook: those that prepare it, and the page's."""
    found = [Cell(INSTALL, True)] + [Cell(SETUP, True)] * (page.stem in SHELL_NOTEBOOKS)
    for cell in cells(page):
        if cell.is_code and (copied := _COPY.search(cell.text)):
            found += _data_cells(copied[1])
            cell = cell._replace(text=_COPY.sub("", cell.text))
        found.append(cell)
    return found


def _data_cells(folder):
    """Returns cells that write the files of a folder of docs/tutorials/data."""
    files = sorted((FOLDER / "data" / folder).iterdir())
    make = Cell(f'pathlib.Path("{folder}").mkdir(exist_ok=True)', True)
    texts = {f"{folder}/{file.name}": file.read_text(encoding="utf-8").removesuffix("\n") for file in files}
    return [make, *(Cell(f"%%writefile {path}\n{text}", True) for path, text in texts.items())]


def notebook(page: pathlib.Path) -> str:
    """Returns a page as a notebook: JSON of nbformat 4.5."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": [_in_notebook(number, cell) for number, cell in enumerate(notebook_cells(page))],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _in_notebook(number, cell):
    source = {"id": f"cell-{number}", "metadata": {}, "source": cell.text.splitlines(keepends=True)}
    if not cell.is_code:
        return {"cell_type": "markdown", **source}
    lines = cell.output.splitlines(keepends=True)
    outputs = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    return {"cell_type": "code", "execution_count": None, **source, "outputs": outputs}


def main():
    """Writes the notebook of each page beside it."""
    for page in notebook_pages():
        page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
