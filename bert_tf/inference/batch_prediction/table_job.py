"""Batch prediction: from a table of texts to files with one prediction per row, in constant memory.

    rows --split--> parts of some rows --predict--> one file per part --join--> the output, or its shards

Each part is predicted by itself, so its result is the same in this process, in one of several, and in a runner
of Apache Beam. Parts are in a directory next to the output until all are complete, and a run that was killed resumes
after the existing ones.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from absl import logging

from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.ragged import Ragged
from bert_tf.data.tables import format_lines
from bert_tf.inference.batch_prediction.answer_parts import PartWriter, join_parts, part_folder
from bert_tf.inference.batch_prediction.column_values import Labeled
from bert_tf.inference.batch_prediction.csv_format import Csv
from bert_tf.inference.batch_prediction.input_table import InputTable, TableRows, expand_columns
from bert_tf.inference.batch_prediction.output_formats import format_of
from bert_tf.inference.batch_prediction.parquet_format import Parquet
from bert_tf.utils import shards
from bert_tf.utils.counts import number_of, word_for
from bert_tf.utils.extras import require_packages
from bert_tf.utils.progress import Countdown
from bert_tf.utils.resources import cores
from bert_tf.utils.token_counts import TokenCounts, log_counts
from bert_tf.utils.workers import Workers

Columns = Mapping[str, np.ndarray | list | Ragged | Labeled]  # name -> one value per row; lists hold JSON values
Answer = Callable[[TableRows], Columns]


class Maker(Protocol):
    """Creates the prediction function in each process; can be pickled: it contains paths and settings, but no model.

    Attributes:
        identity: all that affects predictions, such as the model and the pooling; JSON values. A run resumes with the
            parts of another one only if it is equal.
        unique_ids: optional; whether no two rows may have the same id.
        for_index: optional; whether its predictions go into a search index rather than into a file of the user.
        joins_texts: optional; whether it joins the texts of a row with `join_texts`; a title may then be null.
        verb: optional; what it does with the rows, in the progress: "Predicting" or another.
    """

    identity: Mapping[str, Any]

    def __call__(self) -> Answer: ...


@dataclasses.dataclass(frozen=True)
class TableJob:
    """A batch prediction: its input, its output, and the model.

    Attributes:
        input_file: .tsv, .csv, .jsonl or .parquet, or any other name for one text per line; may be gzipped.
        output_file: .npz, .jsonl, .parquet or .csv.
        maker: creates the prediction function.
        text_columns: columns of a table, by name or index.
        header: whether line 1 of a .tsv or .csv file names the columns.
        list_columns: those of text_columns that contain lists of texts.
        id_column: column of row IDs, which keeps its name and type; if None, rows are numbered from "0", as `id`.
        keep_columns: columns of the table, by name or index, to copy to the output unchanged; "*": all columns that
            are not read for something else.
        num_shards: number of output files, which split the rows evenly and in order; None for one file with just this
            name.
        rows_per_chunk: rows that are predicted and written together.
        num_workers: number of processes.
        restart: discard unfinished work next to output_file.
        quote_formulas: in .csv, put an apostrophe before texts that a spreadsheet would run as a formula.
        on_null: what becomes of rows with a null, or with only empty texts: "null" predictions, "skip" or "error". If
            None, null predictions for a null, while an empty text is a text.
        dialect: how a text file of the input is written.
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
    rows_per_chunk: int = 2048
    num_workers: int = 1
    restart: bool = False
    quote_formulas: bool = True
    on_null: str | None = None
    dialect: Dialect = DEFAULT_DIALECT


def run_table_job(job: TableJob, runner: str | None = None, beam_options: str = "") -> list[str]:
    """Runs a batch prediction, and writes the results of all rows atomically.

    Args:
        job: the batch prediction.
        runner: runner of Apache Beam, such as "DirectRunner", whose workers predict the parts; None for this machine.
        beam_options: additional options, as on the command line of a Beam program.

    Returns:
        The paths of the files written.

    Raises:
        ValueError: a file does not match the description, or unfinished work of another job is next to output_file.
        OSError: a file cannot be written, for example because the disk is full; complete parts are kept.
    """
    outputs = shards.output_files([job.output_file], job.num_shards)
    format_of(job.output_file)  # refuses an unknown one before the table is read
    table = _open_table(job)
    found = table.summary(getattr(job.maker, "unique_ids", False))
    output_format = format_of(job.output_file, job.quote_formulas, table.arrow_types())
    if isinstance(output_format, Parquet):
        _check_types(table, found)
    count = found.count
    _check_missing(table, found, output_format, getattr(job.maker, "for_index", False))
    if len(outputs) > count:
        raise ValueError(f"`num_shards` must be at most {count}, the number of rows; got {job.num_shards}.")
    inputs = {"rows": count, "sha256": found.digest, "id": table.id_name, "kept": list(table.keep_columns)}
    manifest = {"input_file": inputs, "rows_per_chunk": job.rows_per_chunk, "answers": dict(job.maker.identity)}
    manifest |= {"on_null": job.on_null}
    manifest |= {"quote_formulas": job.quote_formulas} if isinstance(output_format, Csv) else {}
    os.makedirs(os.path.dirname(os.path.realpath(job.output_file)), exist_ok=True)
    with part_folder(job.output_file, manifest, job.restart) as folder:
        writer = PartWriter(job.maker, output_format, folder.path)
        if runner:
            require_packages("`runner`", "apache_beam")
            from bert_tf.inference.batch_prediction.beam import write_parts

            write_parts(writer, table, count, job.rows_per_chunk, runner, beam_options)
        else:
            _write_parts(job, writer, table, count)
        join_parts(writer, count, job.rows_per_chunk, outputs)
    shards.warn_of_others([job.output_file], outputs)
    if found.missing:
        what = "were left out" if table.on_null == "skip" else "have null predictions"
        rows = number_of(found.total, "row")
        logging.warning("%s of %s %s, because their text is missing.", f"{found.missing:,}", rows, what)
    return outputs


def _open_table(job):
    others = [*job.text_columns, *([job.id_column] if job.id_column is not None else [])]
    kept = expand_columns(job.keep_columns, job.input_file, job.header, others, job.dialect)
    kept = tuple(name for name in kept if name != job.id_column)
    columns = job.text_columns, job.list_columns, job.id_column, job.header, kept
    joins_texts = getattr(job.maker, "joins_texts", False)
    return InputTable(job.input_file, *columns, job.on_null, job.dialect, joins_texts)


def _check_types(table, found):
    """Raises ValueError if a column to copy has values of several types."""
    for name, lines in found.types.items():
        if len(lines) > 1:
            several = " and ".join(f"a {kind} in line {line}" for kind, line in lines.items())
            raise ValueError(
                f"{table.path}: a column of a .parquet file must have one type; got {several} in the column {name!r}. "
                "Correct the lines, leave the column out, or write `output_file` as .jsonl or .csv."
            )


def _check_missing(table, found, output_format, for_index):
    """Logs which rows have no text; raises ValueError if there must be none, or if the format has no null."""
    if not found.missing:
        return
    noun = "row" if table.path.lower().endswith(".parquet") else "line"
    where = f"in {noun}{word_for(found.missing, '', 's')} {format_lines(found.lines, found.missing)}"
    if table.on_null == "error" or (table.on_null != "skip" and not output_format.holds_null):
        why, more = "because .npz arrays have no null", "or write `output_file` as .jsonl, .parquet or .csv"
        if table.on_null:
            more = f"pass `on_null=skip`, {more}"
        if for_index:
            why, more = "because an index cannot store null", "or index other columns"
        if table.on_null == "error":
            why, more = "with `on_null=error`", "or pass `on_null=null` or `on_null=skip`"
        raise ValueError(
            f"{table.path}: every row must have a text {why}. {number_of(found.missing, 'row')} of {found.total:,} "
            f"{word_for(found.missing, 'has', 'have')} no text, {where}. Add the texts, remove the rows, {more}."
        )
    kept = "they are left out" if table.on_null == "skip" else "their predictions are null"
    rows = f"{found.missing:,} of {number_of(found.total, 'row')}"
    logging.warning("%s: %s have no text (%s), %s; %s.", table.path, rows, table.null, where, kept)


def _write_parts(job, writer, table, count):
    """Predicts the parts that do not exist yet, in this process or in several."""
    there = writer.there()
    if there:
        logging.info("Resuming: %d of %d parts exist.", len(there), -(-count // job.rows_per_chunk))
    tasks = (task for task in table.parts(job.rows_per_chunk, count) if task[0] not in there)
    left = count - sum(min(job.rows_per_chunk, count - number * job.rows_per_chunk) for number in there)
    if not left:
        return
    threads, counts = max(1, cores() // job.num_workers), TokenCounts()
    make, verb = (PartWriter.ready, (writer, False), threads), getattr(job.maker, "verb", "Predicting")
    with Workers(job.num_workers, *make) as workers, Countdown(verb, "rows", left) as progress:
        for part in workers.map("write", tasks):
            progress.advance(part.rows)
            counts = counts.plus(part.counts)
    if counts.texts:
        log_counts(job.input_file, counts)
