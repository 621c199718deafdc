"""What the site has beyond the pages of docs/: the pages that lie above them, and whole docstrings. Hooks of MkDocs.

On GitHub the pages are read as they are, so a link may lead to a file of the checkout. On the site it leads to the page
of that file, and where there is none its text is no link.
"""

import ast
import pathlib
import posixpath
import re

from tools.docs import tables
from tools.docs.navigation import OUTSIDE, ROOT

_DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[([^\]\n]+(?:\n[^\]\n]+)?)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_NAME = re.compile(r"\[(`[\w.]+`)\]\((?:\.\./)+bert_tf/[\w/.]+\)")


def on_files(files, config):
    """Adds the pages that lie outside of docs/."""
    from mkdocs.structure.files import File  # here: tests read this file where there is no MkDocs

    for path in OUTSIDE:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Puts docstrings under the tables of the API's page, and makes links stay on the site."""
    if page.file.src_uri == "reference/python_api.md":
        markdown = with_docstrings(markdown)
    return links_on_site(markdown, pathlib.Path(page.file.abs_src_path), page.file.src_uri)


def with_docstrings(markdown: str) -> str:
    """Returns the page of the API with the docstrings of each table's names below it, to which the names are links."""
    return _TABLE.sub(lambda match: _with_docstrings(match[0]), markdown)


def _with_docstrings(table):
    homes = {name: tables.find(name) for name in tables.names_in(table)}
    homes = {name: home for name, home in homes.items() if not isinstance(home.node, ast.Module)}

    def reference(match):
        name = match[1].strip("`")
        return f"[{match[1]}][{homes[name].name}]" if name in homes else match[1]

    blocks = [f'\n::: {home.name}\n    options:\n      heading: "{name}"\n' for name, home in homes.items()]
    return "".join([_NAME.sub(reference, table), *blocks])


def links_on_site(markdown: str, path: pathlib.Path, uri: str) -> str:
    """Returns a page with the links that leave it as the site needs them.

    Args:
        markdown: the page.
        path: its file.
        uri: its path on the site.
    """

    def link(match):
        text, target, anchor = match[1], match[2], match[3] or ""
        there = pathlib.Path(posixpath.normpath((path.parent / target).as_posix()))
        if not there.exists():
            return match[0]
        if (place := _place_on_site(there)) is None:
            return text
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(link, markdown)


def _place_on_site(path):
    """Returns the path on the site of a file of the checkout; None where it is not there."""
    if path.is_relative_to(_DOCS):
        return path.relative_to(_DOCS).as_posix()
    outside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return outside if outside in OUTSIDE else None
