"""Answers for every row of a table with any exported model, whatever it answers.

    bert-tf predict --model=export --input_file=reviews.jsonl --output_file=answers.jsonl

A run that was killed goes on where it was; --num_workers and --runner share the work out. A SavedModel is a program and
runs with your rights: look at a stranger's first, with `bert-tf verify MODEL --inspect`.
"""

import logging as standard_logging

from absl import logging

from bert_tf.cli.common_flags import PREDICT
from bert_tf.cli.jobs import run_job

FLAGS = PREDICT


def main(settings):
    """Writes the answers."""
    from bert_tf.inference.batch_prediction.exported_model import find_model, match_columns

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # it tells of files that it reads
    model = find_model(settings.model, settings.signature, settings.batch_size)
    names = [each.name for each in model.inputs]
    pairs = match_columns(names, settings.text_column or names)
    if settings.text_column:
        logging.info("Columns: %s.", ", ".join(f"{column} is {name}" for name, column in pairs.items()))
    lists = tuple(pairs[each.name] for each in model.inputs if each.several)
    more = {"id_column": settings.id_column, "keep_columns": tuple(settings.keep_columns)}
    run_job(settings, model, text_columns=tuple(pairs.values()), list_columns=lists, **more)
