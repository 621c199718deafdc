"""Options of question answering: google-research/bert's, and `eval_file`. Imports no TensorFlow: `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.tasks.options import RecurrentOptions, TeacherOptions
from bert_tf.utils.settings import SCORES, option

_QUESTIONS = "a file in SQuAD format, 1.1 or 2.0; may be gzipped (.json.gz)"


@dataclasses.dataclass(frozen=True)
class SquadOptions(RecurrentOptions, TeacherOptions):
    """Which questions are answered, and how contexts are read and spans chosen."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training questions: {_QUESTIONS}.",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(None, f"Evaluation questions: {_QUESTIONS}.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(
        None,
        f"Questions to predict for: {_QUESTIONS}. Also evaluated if it has the answers.",
        essential=True,
    )
    max_seq_length: int = 384
    doc_stride: int = option(
        128,
        "Number of tokens from the start of one window of a context to the start of the next.",
        low=1, decides_result="train_examples",
    )
    max_query_length: int = option(
        64,
        "Maximum question length in tokens; the rest is cut off.",
        low=1, decides_result="train_examples",
    )
    n_best_size: int = option(
        20,
        "Number of answers per question in nbest_predictions.json.",
        low=1, group="Prediction", decides_result=SCORES,
    )
    max_answer_length: int = option(
        30,
        "Maximum answer length in tokens.",
        low=1, group="Prediction", decides_result=SCORES,
    )
    version_2_with_negative: bool = option(
        False,
        "Allow questions without an answer (SQuAD 2.0).",
        essential=True, decides_result="train_examples",
    )
    null_score_diff_threshold: float | None = option(
        None,
        "Margin by which the score of the null prediction (no answer) must exceed that of the best answer to replace "
        "it. Default: the best margin that --do_eval found, otherwise 0.",
        group="Evaluation", requires=("version_2_with_negative",), decides_result=SCORES,
    )
    verbose_logging: bool = option(
        False,
        "Log every question of --do_predict with its answer and scores.",
        group="Prediction",
    )
