"""Parts of error messages about rows: where a row is, what it holds, and how its line ends."""

import os
import shlex
from typing import Any

from bert_tf.data.dialect import (
    extension_of,
)


def line_position(path: str, line: int | str) -> str:
    """Returns "file:line", the beginning of every error about a row; a text is such a position already."""
    if isinstance(line, str):
        return line
    unit = {".parquet": "row", ".json": "item"}.get(extension_of(path))
    return f"{path}: {unit} {line}" if unit else f"{path}:{line}"


def excerpt(value: Any, length: int = 80) -> str:
    """Returns repr(value), truncated to about `length` characters."""
    text = repr(value)
    return text if len(text) <= length else text[:length] + "..."


def bare_returns(path: str, number: int, line: str) -> ValueError:
    """Returns the error of line `number`, in which a bare carriage return ends a line, as on old Macs."""
    stem, extension = os.path.splitext(path.removesuffix(".gz"))
    read = f"gzip -dc {shlex.quote(path)} | tr" if path.endswith(".gz") else f"tr < {shlex.quote(path)}"
    before, _, _ = line.partition("\r")
    return ValueError(
        f"{line_position(path, number)}: lines must end in a line feed (LF) or in CR LF; got a bare carriage "
        f"return (CR) after {excerpt(before)}; convert the file: "
        f"{read} '\\r' '\\n' > {shlex.quote(f'{stem}-lf{extension}')}."
    )
