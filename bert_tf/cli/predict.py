"""Run batch inference over a file with an exported model.

    bert-tf predict --model=export --input_file=reviews.jsonl \\
        --output_file=answers.jsonl

Works with every model that bert_tf exports. Run the same command again to
resume an interrupted run; --num_workers and --runner distribute the work. A
SavedModel is a program that runs with your rights: check a model from an
untrusted source with `bert-tf verify MODEL --inspect` first.
"""

import logging as standard_logging

from absl import logging

from bert_tf.cli.batch_prediction import BATCH_PREDICTION, run_batch_prediction
from bert_tf.utils.settings import Flag, with_attributes

FLAGS = (
    Flag(
        "model", None,
        "Exported model: a directory of numbered versions, the newest of which is used, or the directory of one "
        "version.",
        required=True,
    ),
    *with_attributes(
        BATCH_PREDICTION, "text_column", default=None, help="Columns of a table, by name or by number from 0. A column "
        "with an input's name feeds that input, and the others feed the other inputs in the order in which `ask` takes "
        "them; INPUT=COLUMN for each is explicit. Default: the columns with the inputs' names.",
    ),
    Flag(
        "id_column", None,
        "Column that names each row, by name or by number from 0. Default: rows are numbered from 0.",
    ),
    Flag("keep_columns", [], "Columns of the table to copy to the output, by name or by number from 0.", "list"),
    Flag("signature", "serving_default", "Signature of the model to run."),
    Flag("batch_size", 64, "Number of texts that the model processes at a time.", "integer", low=1),
)  # fmt: skip


def main(settings):
    """Writes the answers."""
    from bert_tf.inference.batch_prediction.exported_model import find_model, match_columns

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # it tells of files that it reads
    model = find_model(settings.model, settings.signature, settings.batch_size)
    names = [each.name for each in model.inputs]
    pairs = match_columns(names, settings.text_column or names)
    if settings.text_column:
        logging.info("Columns: %s.", ", ".join(f"{column} for the input {name}" for name, column in pairs.items()))
    lists = tuple(pairs[each.name] for each in model.inputs if each.several)
    more = {"id_column": settings.id_column, "keep_columns": tuple(settings.keep_columns)}
    run_batch_prediction(settings, model, text_columns=tuple(pairs.values()), list_columns=lists, **more)
