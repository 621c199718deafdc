"""Output as .csv with a header, for spreadsheets: compound values are JSON in their cell, NaN is an empty cell."""

import csv
import dataclasses
import itertools
import json
import re

from bert_tf.data.table_reader import FIELD_LIMIT
from bert_tf.inference.batch_prediction.column_values import json_default, numbers_of, to_json_values
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

_QUOTED = re.compile(r'[",\r\n]')
# Texts that a spreadsheet may run as a formula, even in quotes; signed numbers are not formulas.
_FORMULA = re.compile(r"(?![+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z)[=+\-@\t\r\n]")


@dataclasses.dataclass(frozen=True)
class Csv:
    """RFC 4180 with line feeds; each part has the header. Null is an empty cell.

    Attributes:
        quote_formulas: put an apostrophe before texts that a spreadsheet would run as a formula, as is common.
    """

    quote_formulas: bool = True
    holds_null = True

    def write(self, path, columns):
        cells = [[self._cell(value) for value in to_json_values(values)] for values in columns.values()]
        names = [self._cell(name) for name in columns]
        with atomic_open(path) as file:
            file.writelines(map(_line, [names, *zip(*cells, strict=True)]))

    def join(self, path, slices):
        csv.field_size_limit(FIELD_LIMIT)
        with atomic_open(path) as target:
            for number, (part, first, last) in enumerate(slices):
                with open(part, encoding="utf-8", newline="") as source:
                    rows = csv.reader(source)
                    header = next(rows)
                    target.writelines(map(_line, [header] if number == 0 else []))
                    target.writelines(map(_line, itertools.islice(rows, first, last)))

    def numbers(self, path, name):
        csv.field_size_limit(FIELD_LIMIT)
        with open(path, encoding="utf-8", newline="") as file:
            return numbers_of(json.loads(row[name] or "null") for row in csv.DictReader(file))

    def _cell(self, value):
        if not isinstance(value, str | int | float | list | dict | None):
            value = json_default(value)
        if isinstance(value, str):
            return f"'{value}" if self.quote_formulas and _FORMULA.match(value) else value
        text = json_text(value, ensure_ascii=False, default=json_default)
        return "" if text == "null" else text


def _line(cells):
    """Returns a row as a line. Python's writer does not quote carriage returns if lines end with a line feed."""
    quoted = ['"{}"'.format(cell.replace('"', '""')) if _QUOTED.search(cell) else cell for cell in cells]
    return (",".join(quoted) if quoted != [""] else '""') + "\n"
