"""The parts of a job answered by Apache Beam, on as many machines as a runner has.

One worker reads the table; any of them answers for a part and writes it into the work folder, at a path that all see.
"""

import shlex
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

from bert_tf.inference.batch_prediction.answer_parts import PartWriter
from bert_tf.inference.batch_prediction.input_table import InputTable


def write_parts(writer: PartWriter, table: InputTable, count: int, size: int, runner: str, beam_options: str = ""):
    """Runs the pipeline and waits for its end; parts that are there are not answered again.

    Args:
        writer: of the parts; not ready.
        table: what is read.
        count: its rows.
        size: rows of a part.
        runner: a name that Beam knows, such as "DirectRunner".
        beam_options: more options as on the command line of a Beam program.
    """
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
    """Writes parts, with a model that each worker makes once."""

    def __init__(self, writer):
        self._writer = writer

    def setup(self):
        self._writer.ready()

    def process(self, part):
        self._writer.write(*part)
