"""Options of multiple choice. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.tasks.options import (
    AS_TRAINED,
    SEVERAL_FILES,
    AbstentionOptions,
    RecurrentOptions,
    SelectionOptions,
    TableOptions,
    TeacherOptions,
)
from bert_tf.utils.settings import SCORES, option

_CHOICES = f"SWAG's .csv, or .jsonl or .parquet with context, choices and label; may be gzipped (.gz). {SEVERAL_FILES}"


@dataclasses.dataclass(frozen=True)
class MultipleChoiceOptions(SelectionOptions, RecurrentOptions, TeacherOptions, AbstentionOptions, TableOptions):
    """Which questions are answered."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training questions: {_CHOICES}",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(None, f"Evaluation questions, {AS_TRAINED}.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(
        None, f"Questions to predict for, {AS_TRAINED}; labels are ignored.", essential=True
    )
