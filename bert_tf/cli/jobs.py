"""Runs a program that predicts for every row of a table, by the flags `common_flags.JOB`."""

from absl import logging


def run_job(settings, maker, **more):
    """Answers for every row of --input_file.

    Args:
        settings: with the flags of `common_flags.JOB`.
        maker: a `Maker` of `inference.batch_prediction`.
        more: further attributes of the `TableJob`, or others than the flags say.

    Returns:
        The paths of the files written.

    Raises:
        ValueError: a flag, the file or the model is not as it must be.
    """
    from bert_tf.data.table_reader import is_table
    from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job

    names = ("input_file", "output_file", "header", "num_shards", "rows_per_part", "num_workers", "overwrite",
             "quote_formulas")  # fmt: skip
    values = {name: settings.get(name) for name in names} | {"text_columns": settings.text_column} | more
    _warn_of_ignored(settings, is_table(settings.input_file))
    job = TableJob(maker=maker, **{**values, "text_columns": tuple(values["text_columns"])})
    written = run_table_job(job, settings.runner, settings.beam_options)
    if "output_file" not in more:  # else the caller makes something of it
        logging.info("Wrote %s.", written[0] if len(written) == 1 else f"{len(written)} files, {written[0]} first")
    return written


def _warn_of_ignored(settings, table):
    """Warns of flags that have no effect with the others that were given."""
    of_lines = None if table else f"on {settings.input_file}, which is a text a line"
    is_csv = (settings.output_file or "").lower().endswith(".csv")
    idle = {
        "header": of_lines,
        "text_column": of_lines,
        "num_workers": f"with --runner={settings.runner}" if settings.runner else None,
        "beam_options": None if settings.runner else "without --runner",
        "quote_formulas": None if is_csv else f"on {settings.output_file}, which is no .csv",
    }
    for name, why in idle.items():
        if why and name in settings.given:
            logging.warning("--%s has no effect %s.", name, why)
