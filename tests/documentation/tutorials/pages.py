"""The tutorials in Python, cut into cells: to be run, and to be written as notebooks (`make notebooks`).

A page is Markdown; those of docs/tutorials that have Python are meant, the others are for the shell (commands.py). A
block of ```python is a cell of code, and a block of ```text right after it is what it printed; all else is prose.
"""

import contextlib
import io
import json
import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docs" / "tutorials"
_CODE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


class Cell(NamedTuple):
    """A cell: prose, or code with what it printed."""

    text: str
    is_code: bool
    output: str = ""


def pages(language: str = "python") -> list[pathlib.Path]:
    """Returns the pages with code in a language, sorted."""
    return [page for page in sorted(FOLDER.glob("*.md")) if f"```{language}\n" in page.read_text(encoding="utf-8")]


def cells(page: pathlib.Path) -> list[Cell]:
    """Returns a page's cells, in order; prose between two of code is one."""
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for match in _CODE.finditer(text):
        found += [Cell(text[end : match.start()], False), Cell(match[1], True, match[2] or "")]
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


def notebook(page: pathlib.Path) -> str:
    """Returns a page as a notebook: JSON of nbformat 4.5."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": [_in_notebook(number, cell) for number, cell in enumerate(cells(page))],
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
    for page in pages():
        page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
