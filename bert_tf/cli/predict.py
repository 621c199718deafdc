"""Run batch inference over a file with an exported or trained model.

    bert-tf predict --model=export --input_file=reviews.jsonl \\
        --output_file=answers.jsonl

Works with every model that bert_tf exports, and with a trained model, such as
the --output_dir of a fine-tuning command. Run the same command again to resume
an interrupted run; --num_workers and --runner distribute the work. A SavedModel
is a program that runs with your permissions: check a model from an untrusted
source with `bert-tf verify MODEL --inspect` first.
"""

import dataclasses
import logging as standard_logging
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.cli.batch_prediction import BatchPredictionSettings, run_batch_prediction
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as


@dataclasses.dataclass(frozen=True)
class PredictSettings(BatchPredictionSettings, UserSettings):
    """Model to predict with, and what to write."""

    GROUP: ClassVar[str] = "Data"

    model: str | None = option(
        None,
        "Exported or trained model. Exported: a directory of numbered versions, the newest of which is used, or the "
        "directory of one version. Trained: the --output_dir of a fine-tuning command, or a Hugging Face or "
        "sentence-transformers directory.",
        required=True, group="Model", essential=True, reads_model=True,
    )
    id_column: str | None = option(
        None,
        "Column of the rows' ids, by name or by number from 0; it keeps its name and type. Default: a new column id "
        "that numbers the rows from 0.",
    )
    keep_columns: Sequence[str] = option(
        [],
        "Columns of the table to copy to the output, by name or by number from 0. *: all columns that no other flag "
        "names; in .jsonl files, the keys of line 1.",
    )
    on_null: str = option(
        "null",
        "What to do with rows whose text is null or empty. null: write null predictions; skip: leave the rows out; "
        "error: stop before predicting.",
        choices=("null", "skip", "error"),
    )
    probabilities: str | None = option(
        None,
        "How to write the probabilities of the labels. all: in one column; columns: in a column probability_LABEL per "
        "label; none: only that of the predicted label. Default: all, or none with --top_k.",
        choices=("all", "columns", "none"), group="Prediction",
    )
    top_k: int | None = option(
        None,
        "Number of most probable labels to write, as top_labels and top_probabilities.",
        low=1, group="Prediction",
    )
    signature: str = option("serving_default", "Signature of the model to run.", group="Model")
    batch_size: int = option(64, "Number of texts that the model processes at a time.", low=1, group="Prediction")
    text_column: Sequence[str] | None = option_as(
        BatchPredictionSettings, "text_column", None,
        help="Columns of a table, by name or by number from 0. A column with an input's name feeds that input, and the "
        "others feed the other inputs in the order in which `client ask` takes them; or map each explicitly: "
        "INPUT=COLUMN. Default: the columns with the inputs' names.",
    )


SETTINGS = PredictSettings
FLAGS = flags_of(SETTINGS)


def main(settings: PredictSettings):
    """Writes the answers."""
    from bert_tf.inference.batch_prediction.answer_columns import label_columns
    from bert_tf.inference.batch_prediction.exported_model import match_columns

    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)  # it tells of files that it reads
    model = _find_model(settings)
    names = [each.name for each in model.inputs]
    pairs = match_columns(names, settings.text_column or names)
    if settings.text_column:
        logging.info("Columns: %s.", ", ".join(f"{column} for the input {name}" for name, column in pairs.items()))
    lists = tuple(pairs[each.name] for each in model.inputs if each.several)
    if settings.probabilities == "columns" and settings.output_file.lower().endswith(".npz"):
        raise ValueError("`probabilities=columns` requires an `output_file` other than .npz, which has arrays [n, L].")
    maker = label_columns(model, settings.probabilities, settings.top_k)
    run_batch_prediction(
        settings,
        maker,
        text_columns=tuple(pairs.values()),
        list_columns=lists,
        id_column=settings.id_column,
        keep_columns=tuple(settings.keep_columns),
        on_null=settings.on_null,
    )


def _find_model(settings):
    """Returns what describes and loads the model, exported or trained."""
    from bert_tf.inference.batch_prediction.exported_model import find_model
    from bert_tf.inference.predictor import is_export

    path, size = settings.model, settings.batch_size
    return find_model(path, settings.signature, size) if is_export(path) else _find_trained(settings, path, size)


def _find_trained(settings, path, size):
    # Imported here, because an export needs none of these modules.
    from bert_tf.inference.batch_prediction.trained_model import find_trained_model
    from bert_tf.inference.trained_text_model import check_has_model
    from bert_tf.serving.client.requests import PAIR

    check_has_model(path, "model")
    if "signature" in settings.given:
        raise ValueError(f"`signature` requires an export, and {path} is not one. Remove it.")
    return find_trained_model(path, len(settings.text_column or ()) == len(PAIR), size)
