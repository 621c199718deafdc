"""Runs the parts of a batch prediction with Apache Beam, on the machines of a runner.

One worker reads the table. Any worker predicts a part and writes it to the work directory, at a path shared by all.
"""

import shlex
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

from bert_tf.inference.batch_prediction.answer_parts import PartWriter
from bert_tf.inference.batch_prediction.input_table import InputTable
from bert_tf.utils.proxies import exempt_local


def write_parts(writer: PartWriter, table: InputTable, count: int, size: int, runner: str, beam_options: str = ""):
    """Runs the pipeline and waits for its end; existing parts are not computed again.

    Args:
        writer: writer of the parts; not ready.
        table: the input.
        count: its number of rows.
        size: rows per part.
        runner: name of a Beam runner, such as "DirectRunner".
        beam_options: additional options, as on the command line of a Beam program.
    """
    exempt_local()
    options = PipelineOptions(shlex.split(beam_options), runner=runner)
    options.view_as(SetupOptions).save_main_session = False
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | "Table" >> beam.Create([(table, count, size, writer.there())])
            | "Read" >> beam.FlatMap(_parts)
            | "Spread parts" >> beam.Reshuffle()
            | "Answer" >> beam.ParDo(_Answer(writer))
        )


def _parts(task):
    table, count, size, there = task
    for number, rows in table.parts(size, count):
        if number not in there:
            yield number, rows


@beam.typehints.with_input_types(tuple[int, Any])
class _Answer(beam.DoFn):
    """Writes parts with a model that each worker loads once."""

    def __init__(self, writer):
        self._writer = writer

    def setup(self):
        self._writer.ready()

    def process(self, part):
        self._writer.write(*part)
