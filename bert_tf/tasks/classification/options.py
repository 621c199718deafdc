"""Options of classification. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.tasks.options import (
    AS_TRAINED,
    DROP_EMPTY,
    TABLE_FILES,
    AbstentionOptions,
    LabelOptions,
    RecurrentOptions,
    TableOptions,
    TeacherOptions,
)
from bert_tf.utils import names
from bert_tf.utils.settings import SCORES, option


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(LabelOptions, RecurrentOptions, TeacherOptions, AbstentionOptions, TableOptions):
    """Which texts are classified, what a label is, and how long texts are read."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training examples: {TABLE_FILES}",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(None, f"Evaluation examples, {AS_TRAINED}.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(None, f"Examples to predict for, {AS_TRAINED}.", essential=True)
    header: bool = option(
        True,
        "Read column names from line 1 of a .tsv or .csv file.",
        decides_result="train_examples",
    )
    task_name: str | None = option(
        None,
        "Task whose official files are in --data_dir: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli or ax of "
        "GLUE, or xnli.",
        excludes=(
            "train_file", "eval_file", "predict_file", "test_file", "separator", "encoding", "label_columns",
            "drop_empty",
        ),
        decides_result="train_examples",
    )
    data_dir: str | None = option(
        None,
        "Directory of --task_name, with train.tsv, dev.tsv and test.tsv, or the task's own names for these files.",
        decides_result="train_examples",
    )
    xnli_language: str | None = option(
        None,
        "Language of xnli, as its files name it. Default: en.",
        decides_result="train_examples",
    )
    text_column: Sequence[str] = option(
        ["text"],
        "Text column, by name or by number from 0; two, separated by a comma, for text pairs.",
        essential=True, decides_result="train_examples",
    )
    label_column: str = option(
        "label",
        "Label column, by name or by number from 0.",
        essential=True, decides_result="train_examples",
    )
    problem_type: str = option(
        "single_label",
        "Kind of label in your own files. single_label: one name; multi_label: several, with --label_separator "
        "between them; regression: a number.",
        choices=names.PROBLEMS, essential=True, decides_result="train_examples",
    )
    label_separator: str = option(
        ",",
        "Separator between the labels of an example that has several.",
        decides_result="train_examples",
    )
    label_columns: Sequence[str] | None = option(
        None,
        "Columns named after the labels. Each cell is 1 or true if the example has the label; 0, false or empty if "
        "not.",
        excludes=("label_column", "label_separator"), decides_result="train_examples",
    )
    drop_empty: bool = DROP_EMPTY
    fit_temperature: bool = option(
        False,
        "Fit, on --eval_file, the temperature that best calibrates the probabilities, and store it with the model.",
        group="Evaluation", requires=("do_eval",), decides_result=SCORES,
    )
    fit_thresholds: bool = option(
        False,
        "With --problem_type=multi_label: fit each label's probability threshold for the highest F1 on "
        "--eval_file, and store it with the model. Unfitted thresholds are 0.5.",
        group="Evaluation", requires=("do_eval",), decides_result=SCORES,
    )
    long_text: str = option(
        "truncate",
        "Treatment of texts over --max_seq_length. truncate: cut the end off; window: read the text in overlapping "
        "windows and average the predictions.",
        choices=("truncate", "window"), decides_result="train_examples",
    )
    doc_stride: int | None = option(
        None,
        "Number of tokens from the start of one window to the start of the next. Default: half of --max_seq_length.",
        low=1, decides_result="train_examples",
    )
    max_windows: int = option(
        32,
        "Maximum number of windows per text; the rest is cut off.",
        low=1, decides_result="train_examples",
    )
