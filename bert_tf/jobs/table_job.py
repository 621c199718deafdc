"""A table of texts to a file of answers, a row for each."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.data.tables import read_table
from bert_tf.files import atomic_open, read_text


class Rows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: a name for each.
        texts: of each text column its texts.
    """

    ids: list[str]
    texts: tuple[list[str], ...]


Columns = Mapping[str, np.ndarray | list | Ragged]  # name -> a value for each row; lists hold what JSON can say
Answer = Callable[[Rows], Columns]


class Maker(Protocol):
    """Makes the function that answers, in each process anew; so it can be pickled: paths and settings, no model.

    Attributes:
        identity: what decides the answers, such as the model and the pooling; JSON values.
    """

    identity: Mapping[str, Any]

    def __call__(self) -> Answer: ...


@dataclasses.dataclass(frozen=True)
class TableJob:
    """What is to be made of what.

    Attributes:
        input_file: .tsv, .csv, .jsonl or .parquet, or any other name: a text a line; .gz too.
        output_file: .npz, .jsonl or .parquet.
        maker: of the function that answers.
        text_columns: of a table, by name or index.
        header: whether line 1 of a .tsv or .csv file names the columns.
    """

    input_file: str
    output_file: str
    maker: Maker
    text_columns: tuple[str, ...] = ("text",)
    header: bool = True


def run(job: TableJob):
    """Writes the answers for all rows: all of them, or none."""
    columns = job.maker()(_read(job))
    if job.output_file.endswith(".npz"):
        arrays = {}
        for name, values in columns.items():
            ragged = isinstance(values, Ragged)
            arrays[name] = np.asarray(values.flat if ragged else values)
            arrays |= {f"{name}_splits": values.splits} if ragged else {}
        with atomic_open(job.output_file, "wb") as file:
            np.savez(file, **arrays)
        return
    lists = {name: _plain(values) for name, values in columns.items()}
    with atomic_open(job.output_file) as file:
        for row in zip(*lists.values(), strict=True):
            file.write(json.dumps(dict(zip(lists, row, strict=True)), ensure_ascii=False) + "\n")


def _plain(values):
    rows = values.rows() if isinstance(values, Ragged) else values
    return [row.tolist() if hasattr(row, "tolist") else row for row in rows]


def _read(job):
    name = job.input_file.lower().removesuffix(".gz")
    if os.path.splitext(name)[1] in (".tsv", ".csv", ".jsonl", ".parquet"):
        table = read_table(job.input_file, header=job.header, text_columns=job.text_columns)
        return Rows(table.ids, tuple(filter(None, (table.text_a, table.text_b))))
    lines = read_text(job.input_file).removesuffix("\n").split("\n")
    return Rows([str(n) for n in range(len(lines))], ([line.removesuffix("\r") for line in lines],))
