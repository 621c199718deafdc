"""Answers as .csv with a header, for spreadsheets: what is no single value is JSON in its cell, NaN an empty cell."""

import csv
import itertools
import json

from bert_tf.data.rows import FIELD_LIMIT
from bert_tf.files import atomic_open
from bert_tf.jobs.formats import numbers_of, plain
from bert_tf.json_files import json_text


class Csv:
    """RFC 4180 with line feeds; each part has the header. Null is an empty cell."""

    holds_null = True

    def write(self, path, columns):
        cells = [[_cell(value) for value in plain(values)] for values in columns.values()]
        with atomic_open(path) as file:
            csv.writer(file, lineterminator="\n").writerows([list(columns), *zip(*cells, strict=True)])

    def join(self, path, slices):
        csv.field_size_limit(FIELD_LIMIT)
        with atomic_open(path) as target:
            writer = csv.writer(target, lineterminator="\n")
            for number, (part, first, last) in enumerate(slices):
                with open(part, encoding="utf-8", newline="") as source:
                    rows = csv.reader(source)
                    header = next(rows)
                    writer.writerows([header] if number == 0 else [])
                    writer.writerows(itertools.islice(rows, first, last))

    def numbers(self, path, name):
        csv.field_size_limit(FIELD_LIMIT)
        with open(path, encoding="utf-8", newline="") as file:
            return numbers_of(json.loads(row[name] or "null") for row in csv.DictReader(file))


def _cell(value):
    if isinstance(value, str):
        return value
    text = json_text(value, ensure_ascii=False)
    return "" if text == "null" else text
