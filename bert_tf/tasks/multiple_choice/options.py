"""Flags of multiple choice. Light: --help needs no TensorFlow."""

from bert_tf.tasks.classification.options import ABSTENTION
from bert_tf.utils.settings import Flag

_QUESTIONS = "Questions as SWAG's .csv, or as .jsonl or .parquet with context, choices and label; also packed (.gz)"
FLAGS = (
    Flag("train_file", None, f"{_QUESTIONS}, to train on."),
    Flag("eval_file", None, f"{_QUESTIONS}, to score on."),
    Flag("predict_file", None, f"{_QUESTIONS}, to answer; labels are ignored."),
    *ABSTENTION,
)
