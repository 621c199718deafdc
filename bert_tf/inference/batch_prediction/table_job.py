"""A table of texts to files of answers, a row for each, in memory that does not grow with the table.

    rows --cut--> parts of some rows --answer--> a file for each part --join--> the output, or its shards

A part is answered by itself, so its answers are the same whoever makes them: this process, one of several, or a runner
of Apache Beam. Parts lie in a folder next to the output until all of them are there, and a run that was killed goes on
after those that it finds.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from absl import logging

from bert_tf.data.features import Ragged
from bert_tf.data.tables import format_lines
from bert_tf.inference.batch_prediction.answer_parts import PartWriter, WorkFolder, join_parts
from bert_tf.inference.batch_prediction.input_table import InputTable, TableRows
from bert_tf.inference.batch_prediction.output_formats import Csv, format_of
from bert_tf.utils import shards
from bert_tf.utils.names import number_of, word_for
from bert_tf.utils.progress import Countdown
from bert_tf.utils.resources import cores
from bert_tf.utils.workers import Workers

Columns = Mapping[str, np.ndarray | list | Ragged]  # name -> a value for each row; lists hold what JSON can say
Answer = Callable[[TableRows], Columns]


class Maker(Protocol):
    """Makes the function that answers, in each process again; so it can be pickled: paths and settings, no model.

    Attributes:
        identity: what decides the answers, such as the model and the pooling; JSON values. A run goes on with the
            parts of another one only where this is the same.
    """

    identity: Mapping[str, Any]

    def __call__(self) -> Answer: ...


@dataclasses.dataclass(frozen=True)
class TableJob:
    """A batch prediction: its input, its output, and the model that answers.

    Attributes:
        input_file: .tsv, .csv, .jsonl or .parquet, or any other name: a text a line; .gz too.
        output_file: .npz, .jsonl, .parquet or .csv.
        maker: of the function that answers.
        text_columns: of a table, by name or index.
        header: whether line 1 of a .tsv or .csv file names the columns.
        list_columns: those of text_columns that hold lists of texts.
        id_column: of the rows' names; None: they are numbered from "0".
        keep_columns: of the table, by name or index, that are written next to the answers as they are.
        num_shards: how many files share the rows, as evenly as can be and in order; None: one of just this name.
        rows_per_part: that are answered and written together.
        num_workers: processes.
        overwrite: throw away what an unfinished run of another job left next to output_file.
        quote_formulas: in .csv, put an apostrophe before texts that a spreadsheet would take for a formula.
    """

    input_file: str
    output_file: str
    maker: Maker
    text_columns: tuple[str, ...] = ("text",)
    header: bool = True
    list_columns: tuple[str, ...] = ()
    id_column: str | None = None
    keep_columns: tuple[str, ...] = ()
    num_shards: int | None = None
    rows_per_part: int = 2048
    num_workers: int = 1
    overwrite: bool = False
    quote_formulas: bool = True


def run_table_job(job: TableJob, runner: str | None = None, beam_options: str = "") -> list[str]:
    """Writes the answers for all rows: all of them, or none.

    Args:
        job: what is to be made.
        runner: of Apache Beam, such as "DirectRunner", on whose workers the parts are answered; None: here.
        beam_options: more options as on the command line of a Beam program.

    Returns:
        The paths of the files written.

    Raises:
        ValueError: a file is not as described, or work of another job lies next to output_file.
        OSError: something cannot be written, for example because the disk is full; the parts that are written stay.
    """
    outputs = shards.output_files([job.output_file], job.num_shards)
    output_format = format_of(job.output_file, job.quote_formulas)
    table = InputTable(job.input_file, job.text_columns, job.list_columns, job.id_column, job.header, job.keep_columns)
    found = table.summary()
    count = found.count
    _check_missing(table, found, output_format)
    if len(outputs) > count:
        raise ValueError(f"`num_shards` must be {count} at most, the number of rows. Received: {job.num_shards}.")
    inputs = {"rows": count, "sha256": found.digest} | ({"kept": list(job.keep_columns)} if job.keep_columns else {})
    manifest = {"input_file": inputs, "rows_per_part": job.rows_per_part, "answers": dict(job.maker.identity)}
    manifest |= {"quote_formulas": job.quote_formulas} if isinstance(output_format, Csv) else {}
    os.makedirs(os.path.dirname(os.path.realpath(job.output_file)), exist_ok=True)
    with WorkFolder(job.output_file, manifest, job.overwrite) as folder:
        writer = PartWriter(job.maker, output_format, folder.path)
        if runner:
            _import_beam_writer()(writer, table, count, job.rows_per_part, runner, beam_options)
        else:
            _write_parts(job, writer, table, count)
        join_parts(writer, count, job.rows_per_part, outputs)
    shards.warn_of_others([job.output_file], outputs)
    if found.missing:
        logging.warning("%d of %s answered with null, for lack of a text.", found.missing, number_of(count, "row"))
    return outputs


def _check_missing(table, found, output_format):
    """Logs which rows have no text; raises ValueError where the format cannot say so."""
    if not found.missing:
        return
    noun = "row" if table.path.lower().endswith(".parquet") else "line"
    where = f"in {noun}{word_for(found.missing, '', 's')} {format_lines(found.lines, found.missing)}"
    if not output_format.holds_null:
        raise ValueError(
            f"{table.path}: every row must have a text where the answers are arrays, which hold no null. Received "
            f"{number_of(found.missing, 'row')} of {found.count:,} without, {where}; fill the texts in, take "
            "the rows out, or name `output_file` .jsonl, .parquet or .csv."
        )
    logging.warning("%s: %d of %s without a text (null), %s; answered with null.",
                    *(table.path, found.missing, number_of(found.count, "row"), where))  # fmt: skip


def _import_beam_writer():
    try:
        from bert_tf.inference.batch_prediction.beam import write_parts
    except ModuleNotFoundError as error:
        raise ValueError(f"`runner` must have Apache Beam. Received: {error}; pip install 'bert-tf[beam]'.") from error
    return write_parts


def _write_parts(job, writer, table, count):
    """Answers for the parts that are not there yet, in this process or in several."""
    there = writer.there()
    if there:
        logging.info("Going on: %d of %d parts are there.", len(there), -(-count // job.rows_per_part))
    tasks = (task for task in table.parts(job.rows_per_part, count) if task[0] not in there)
    left = count - sum(min(job.rows_per_part, count - number * job.rows_per_part) for number in there)
    if not left:
        return
    threads = max(1, cores() // job.num_workers)
    make = PartWriter.ready, (writer,), threads
    with Workers(job.num_workers, *make) as workers, Countdown("Answering", "rows", left) as progress:
        for rows in workers.map("write", tasks):
            progress.advance(rows)
