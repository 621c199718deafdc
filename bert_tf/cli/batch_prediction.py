"""Commands that predict for every row of a table: their common flags, and the run."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.data.dialect import Dialect
from bert_tf.utils.beam_settings import BeamSettings
from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class BatchPredictionSettings(Dialect, BeamSettings):
    """Rows to predict, how to predict them, and where to write the predictions."""

    GROUP: ClassVar[str] = "Output"

    input_file: str | None = option(
        None,
        "Texts to read: one per line, or a table (.tsv, .csv, .jsonl or .parquet) with --text_column; may be gzipped "
        "(.gz).",
        required=True, group="Data", essential=True,
    )
    output_file: str | None = option(
        None,
        "Output file of the predictions: .npz, .jsonl, .parquet or .csv.",
        required=True, essential=True,
    )
    text_column: Sequence[str] = option(
        ["text"],
        "Text column of a table, by name or by number from 0; several are separated by commas.",
        group="Data", essential=True,
    )
    header: bool = option(True, "Read column names from line 1 of a .tsv or .csv file.", group="Data")
    num_shards: int | None = option(
        None,
        "Number of output files to write instead of one: NAME-00000-of-00008.npz and so on.",
        low=1, essential=True,
    )
    rows_per_chunk: int = option(
        2048,
        "Number of rows per chunk. Each chunk is predicted and written as a whole; an interrupted run resumes after "
        "the last one written. Smaller chunks use less memory.",
        low=1, group="Parallel processing", aliases=("rows_per_part",),
    )
    num_workers: int = option(
        1,
        "Number of processes, which does not change the predictions. A single process uses all cores.",
        low=1, group="Parallel processing", essential=True,
    )
    restart: bool = option(
        False,
        "Start over: discard what an unfinished run, of this or another command, left next to --output_file.",
        aliases=("overwrite",),
    )
    quote_formulas: bool = option(
        True,
        "In .csv output, put an apostrophe before a text that a spreadsheet would take for a formula: it begins with "
        "=, +, -, @, a tab or a line break and is not a number. Turn this off for programs that read the file.",
    )


def run_batch_prediction(settings: BatchPredictionSettings, maker, **more):
    """Predicts an answer for every row of --input_file.

    Args:
        settings: settings of the command.
        maker: a `Maker` of `inference.batch_prediction`.
        more: further attributes of the `TableJob`, or values that override those of the flags.

    Returns:
        The paths of the files written.

    Raises:
        ValueError: a flag, the file or the model is invalid.
    """
    from bert_tf.data.dialect import Dialect
    from bert_tf.data.table_reader import is_table
    from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job

    names = ("input_file", "output_file", "header", "num_shards", "rows_per_chunk", "num_workers", "restart",
             "quote_formulas")  # fmt: skip
    values = {name: getattr(settings, name) for name in names} | {"text_columns": settings.text_column} | more
    values["dialect"] = Dialect(settings.separator, settings.encoding)
    _warn_of_ignored(settings, is_table(settings.input_file))
    job = TableJob(maker=maker, **{**values, "text_columns": tuple(values["text_columns"])})
    written = run_table_job(job, settings.runner, settings.beam_options)
    if "output_file" not in more:  # else the caller makes something of it
        logging.info("Wrote %s.", written[0] if len(written) == 1 else f"{len(written)} files, {written[0]} first")
    return written


def _warn_of_ignored(settings, table):
    """Warns of flags that have no effect with the others that were given."""
    of_lines = None if table else f"with {settings.input_file}, which has one text per line"
    is_csv = (settings.output_file or "").lower().endswith(".csv")
    idle = {
        "header": of_lines,
        "separator": of_lines,
        "text_column": of_lines,
        "num_workers": f"with --runner={settings.runner}" if settings.runner else None,
        "beam_options": None if settings.runner else "without --runner",
        "quote_formulas": None if is_csv else f"with {settings.output_file}, which is not a .csv file",
    }
    for name, why in idle.items():
        if why and name in settings.given:
            logging.warning("--%s has no effect %s.", name, why)
