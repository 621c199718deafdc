"""The export at the end of a fine-tuning run: what it requires, what calibrates it, whether its scores suffice."""

import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.evaluation.metrics import largest_fall
from bert_tf.export.calibration import BATCH_SIZE, MOST_EXAMPLES, read_calibration_texts
from bert_tf.export.explanation_signatures import check_explanations
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.settings import ExportFormSettings, ExportSettings
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import TrainedTask
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.training.batching import BatchSettings
from bert_tf.utils.settings import part_of


def make_export_options(settings: ExportFormSettings) -> ExportOptions:
    """Returns the `ExportOptions` that the settings describe.

    Raises:
        ValueError: the options contradict each other.
    """
    explanations = tuple(part_of(settings, ExportSettings).export_explanations)
    return ExportOptions(settings.export_dtype, settings.export_for, explanations, settings.export_threads)


def check_export(settings: FineTuningSettings, form: ExportOptions, trained: TrainedTask, tokenizer: TokenizerTables):
    """Raises ValueError if the model could not be exported after the run; call this before training.

    Args:
        settings: settings of the run.
        form: form of the export.
        trained: the task as it will be exported.
        tokenizer: of the model.
    """
    if settings.do_export:
        tokenizer.check_exportable("`do_export`")
        form.check(trained.task)
        form.check_folder(settings.export_dir or os.path.join(settings.output_dir, form.folder))
        check_explanations(form.explanations, trained.task, form.dtype)
    path = settings.calibration_file
    if path is not None:
        if not settings.do_export:
            raise ValueError(
                "`calibration_file` requires `do_export`, because its texts calibrate the exported model. Add "
                "`do_export` or remove `calibration_file`."
            )
        read_calibration_texts(path, trained.task, trained.text_inputs)
    if settings.do_export:
        form.check_processor()


def choose_calibration(
    settings: FineTuningSettings, form: ExportOptions, batching: BatchSettings, rows: dict[str, Any]
):
    """Returns the examples that set the ranges of int8, as `export_trained` takes them; None if there are none.

    Args:
        settings: settings of the run.
        form: form of the export.
        batching: batching of the run.
        rows: {split: tokenized examples}; without a `calibration_file`, some of "train" are taken.
    """
    if not form.takes_ranges:
        return None
    if settings.calibration_file or not settings.do_train:
        return settings.calibration_file
    return batching.sample(rows["train"], MOST_EXAMPLES, settings.seed, BATCH_SIZE)


def check_export_scores(before: Mapping[str, float], after: Mapping[str, float], tolerance: float | None, dtype: str):
    """Logs which metric drops most in the precision of an export.

    Args:
        before, after: {metric: score} on the same examples, `after` in `dtype`.
        tolerance: relative drop that is allowed; None for any.
        dtype: data type of the export.

    Raises:
        ValueError: a metric drops by more.
    """
    fall = largest_fall(before, after)
    if fall is None:
        return
    name, share = fall
    change = f"{name} is {after[name]:.4f} in {dtype} and was {before[name]:.4f}"
    if tolerance is not None and share > tolerance:
        raise ValueError(
            f"A metric dropped by more than the relative tolerance `int8_tolerance={tolerance}` in {dtype}: {change}. "
            "Nothing was exported. Choose another `export_dtype`, or allow more."
        )
    logging.info("Largest change in %s: %s.", dtype, change)
