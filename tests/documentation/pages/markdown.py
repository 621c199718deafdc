"""Markdown, as far as the tests of the pages must understand it."""

import pathlib
import re

from tests.conftest import ROOT

_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")


def pages() -> list[pathlib.Path]:
    """Returns all pages: those of docs/, and the ones above it."""
    above = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "benchmarks/README.md")
    return [*(ROOT / path for path in above), *sorted((ROOT / "docs").rglob("*.md"))]


def prose(text: str) -> list[str]:
    """Returns a page's lines, those in fences empty."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = bool(_FENCE.match(line))
        lines.append("" if inside or fence else line)
        inside ^= fence
    return lines


def links(text: str) -> list[str]:
    """Returns the targets of a page's links and pictures, but for those elsewhere on the web."""
    plain = re.sub(r"`[^`\n]*`", "``", "\n".join(prose(text)))
    return [target for target in _LINK.findall(plain) if "://" not in target]


def anchors(text: str) -> set[str]:
    """Returns the anchors that both GitHub and the site give to the headings of a page.

    Of headings that are alike only the first counts: the others have a number behind them, each in its own way.
    """
    return {slug(found[1]) for line in prose(text) if (found := _HEADING.match(line))}


def slug(heading: str) -> str:
    """Returns a heading's anchor: small letters, blanks as hyphens, and of all else letters, digits, - and _."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def misunderstandings(text: str) -> list[str]:
    """Returns what GitHub and the site read otherwise than each other, as "line N: what".

    On GitHub a list or a table may follow upon a line of text, a heading upon a table, and a list in a list be set in
    by two blanks. The site's reader wants an empty line, and four.
    """
    found, before = [], ""
    for number, line in enumerate(prose(text), 1):
        item, goes_on = re.match(r"(?:[-*+]|\d+\.) ", line), re.match(r" +|[-*+] |\d+\. ", before)
        if item and before.strip() and not goes_on:
            found.append(f"line {number}: an empty line must stand before a list")
        if line.startswith("|") and before.strip() and not before.startswith("|"):
            found.append(f"line {number}: an empty line must stand before a table")
        if before.startswith("|") and line.strip() and not line.startswith("|"):
            found.append(f"line {number}: an empty line must stand after a table")
        if re.match(r" {1,3}(?:[-*+]|\d+\.) ", line):
            found.append(f"line {number}: a list in a list must be set in by four blanks")
        before = line
    return found
