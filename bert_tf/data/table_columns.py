"""Columns requested of a table by name or index, found among those that it has."""

import dataclasses
from collections.abc import Sequence

from bert_tf.data.dialect import (
    SEPARATOR_NAMES,
    QuotedRows,
    separator_name,
    separator_option,
)
from bert_tf.data.row_errors import excerpt
from bert_tf.utils.counts import word_for


@dataclasses.dataclass(frozen=True)
class Column:
    """A column requested by name or index.

    Attributes:
        name: its name or index.
        parameter: the parameter that named it. If None, files of this kind always have it.
        remedy: advice that ends errors about it; required if there is no parameter.
        meaning: its content, if there is no parameter.
        optional: whether a line of .jsonl may lack it; its value is then None.
    """

    name: str | int
    parameter: str | None = None
    remedy: str | None = None
    meaning: str | None = None
    optional: bool = False

    def index(self) -> int | None:
        """Returns the column as an index from 0, or None if it is a name."""
        text = str(self.name)
        return int(text) if text.isascii() and text.isdecimal() else None

    def find(self, names: Sequence[str], at: str) -> int | None:
        """Returns the column's index in `names`, or None if it is missing; a name made of digits precedes an index.

        `at` is "file:line" for errors.
        """
        if isinstance(self.name, str) and names.count(self.name) > 1:
            raise ValueError(
                f"{at}: column names must be unique; got {self.name!r} more than once in {excerpt(names)}; "
                f"set `{self.parameter}` to an index, from 0, or rename one."
            )
        if isinstance(self.name, str) and self.name in names:
            return names.index(self.name)
        index = self.index()
        return index if index is not None and index < len(names) else None

    def __str__(self):
        return f"{self.name!r} ({self.meaning or f'`{self.parameter}`'})"


def find_columns(columns: Sequence[Column], names: Sequence[str], at: str, header: bool = True) -> list[int]:
    """Returns the indices of columns in `names`.

    Args:
        columns: to find.
        names: that there are.
        at: "file:line" for errors.
        header: whether an error may blame the parameter `header`.

    Raises:
        ValueError: columns are missing (the message lists all of them), or a name occurs more than once.
    """
    indices = [column.find(names, at) for column in columns]
    if missing := [column for column, index in zip(columns, indices, strict=True) if index is None]:
        raise missing_columns(missing, names, at, header)
    return [index for index in indices if index is not None]


def missing_columns(columns: Sequence[Column], names: Sequence[str], at: str, header: bool) -> ValueError:
    """Returns the error of missing columns; `names`, `at` and `header` are as for `find_columns`."""
    parameters = " and ".join(dict.fromkeys(f"`{column.parameter}`" for column in columns))
    advice = f"choose {word_for(len(columns), 'one', 'them')} with {parameters}"
    advice += ", or set `header=false` if line 1 is already an example" if header else ""
    if header and len(names) == 1 and (likely := [each for each in SEPARATOR_NAMES if each in names[0]]):
        advice = f"{separator_name(likely[0])} seem to separate the columns: set {separator_option(likely[0])}"
    elif header and not at.lower().removesuffix(":1").removesuffix(".gz").endswith(".csv") and all(
        name[:1] == name[-1:] == '"' for name in names
    ):
        advice = f"the columns seem to be in double quotes, as in .csv: {QuotedRows.REMEDY}"
    *others, last = dict.fromkeys(map(str, columns))
    what = f"columns {', '.join(others)} and {last}" if others else f"column {last}"
    return ValueError(
        f"{at}: missing {what}. Found the columns {excerpt(list(names), 200)}; {columns[0].remedy or advice}."
    )
