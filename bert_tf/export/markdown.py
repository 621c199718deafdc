"""Sections, tables and lists in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any


def format_table(heading: str, pairs: Iterable[tuple[str, Any]]) -> str:
    rows = [(name, value) for name, value in pairs if value not in (None, "")]
    return format_section(heading, format_rows(("", ""), rows)) if rows else ""


def format_list(heading: str, items: Sequence[str]) -> str:
    return format_section(heading, "\n".join(f"- {format_cell(item)}" for item in items)) if items else ""


def format_section(heading, text):
    return f"## {heading}\n\n{text}"


def format_rows(header, rows):
    lines = [header, ["---"] * len(header), *([format_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_cell(value):
    """Escapes a value so that it ends neither the cell nor the line."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
