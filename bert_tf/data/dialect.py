"""How text tables are written: the format by the extension, the separator of columns, the encoding."""

import dataclasses
import os
import re
from typing import ClassVar

from bert_tf.utils.settings import option

TAB = "\t"
SEPARATORS = {".tsv": TAB, ".csv": ","}
SEPARATOR_NAMES = {TAB: "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SPELLINGS = {"tab": TAB, "\\t": TAB}  # of a separator that is hard to type in a shell


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a text table is written, where it differs from what its extension implies."""

    GROUP: ClassVar[str] = "Data"

    separator: str | None = option(
        None,
        "Column separator of .csv and .tsv files: a character, such as ';' or '|', or the word tab. Default: a comma "
        "in .csv, a tab in .tsv.",
    )
    encoding: str | None = option(
        None,
        "Encoding of the input text files, such as cp1252, latin-1 or utf-16. Default: UTF-8, in which invalid bytes "
        "are dropped and counted.",
    )

    def separator_of(self, extension: str) -> str:
        """Returns the character between two columns of a ".tsv" or ".csv" file.

        Raises:
            ValueError: the separator is not one character, or one that ends lines or encloses fields.
        """
        if self.separator is None:
            return SEPARATORS[extension]
        separator = _SPELLINGS.get(self.separator, self.separator)
        if len(separator) != 1 or separator in "\r\n\"\0":
            raise ValueError(
                "`separator` must be one character other than a quote or line break, such as ; or |, or the word tab; "
                f"got {self.separator!r}."
            )
        return separator

    def check(self, path: str):
        """Raises ValueError for settings that a file of this format does not have."""
        extension = extension_of(path)
        if self.separator is not None and extension not in SEPARATORS:
            raise ValueError(f"`separator` applies only to .csv and .tsv files; got {path}; remove `separator`.")
        if self.encoding is not None and extension == ".parquet":
            raise ValueError(
                f"`encoding` applies only to text files; got {path}, which is always UTF-8; remove `encoding`."
            )


DEFAULT_DIALECT = Dialect()


class QuotedRows:
    """Rows of a .tsv file, in which quotes are ordinary characters, that were written with the quotes of .csv.

    That is certain if each field with a quote is in quotes and its inner quotes are doubled, or if every field of the
    file is in quotes. GLUE's files have stray quotes, and are neither.

    Attributes:
        count: rows so far.
        lines: numbers of those with quoted fields.
    """

    REMEDY = "rename the file to .csv and set `separator=tab`, or write it again without quotes"

    def __init__(self, separator: str):
        self.count, self.lines = 0, []
        self._separator, self._is_consistent, self._has_doubled, self._whole = separator, True, False, 0

    def add(self, number: int, line: str):
        """Takes the next row, without its end."""
        self.count += 1
        if not self._is_consistent or '"' not in line:
            return
        cells = line.split(self._separator)
        quoted = [cell for cell in cells if '"' in cell]
        self._is_consistent = all(map(_QUOTED.fullmatch, quoted))
        self._has_doubled |= any('""' in cell[1:-1] for cell in quoted)
        self._whole += len(quoted) == len(cells)
        self.lines.append(number)

    @property
    def are_certain(self) -> bool:
        """Whether the rows so far were written with quotes."""
        return self._is_consistent and (self._has_doubled or 1 < self._whole == self.count)


def separator_name(separator: str) -> str:
    """Returns what a separator is called in messages, in the plural."""
    return SEPARATOR_NAMES.get(separator, repr(separator))


def separator_option(separator: str) -> str:
    """Returns the setting of a separator as messages show it."""
    return f"`separator={'tab' if separator == TAB else repr(separator)}`"


def extension_of(path: str) -> str:
    """Returns the extension that decides the format: the inner one if the name ends in .gz."""
    stem, extension = os.path.splitext(path.lower())
    if extension == ".gz" and not stem.endswith(".parquet"):  # Parquet compresses its columns itself
        return os.path.splitext(stem)[1]
    return extension
