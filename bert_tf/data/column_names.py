"""The names of a table's columns, read without its rows."""

import csv

from bert_tf.data.rows import FIELD_LIMIT, extension_of, parse_object, without_end
from bert_tf.utils import files


def names_in(path: str) -> list[str]:
    """Returns the names of the columns: those of line 1, the keys of the first object, or those of the Parquet schema.

    Returns:
        the names; [] where the file cannot be read so, of which `read_rows` says why.
    """
    try:
        return _NAMES[extension_of(path)](path)
    except (KeyError, ValueError, OSError, csv.Error, RecursionError):  # pyarrow's errors are of the second kind
        return []


def _names_in_tsv(path):
    return without_end(next(files.read_lines(path), "")).split("\t")


def _names_in_csv(path):
    csv.field_size_limit(FIELD_LIMIT)
    return next(csv.reader(files.read_lines(path), strict=True), [])


def _names_in_jsonl(path):
    return list(parse_object(path, next(files.read_lines(path), "")))


def _names_in_parquet(path):
    from pyarrow import parquet

    return parquet.read_schema(path).names


_NAMES = {".tsv": _names_in_tsv, ".csv": _names_in_csv, ".jsonl": _names_in_jsonl, ".parquet": _names_in_parquet}
