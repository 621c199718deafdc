"""Flags of classification: which texts, and what a label is. Light: --help needs no TensorFlow."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

GLUE_TASK = (
    Flag("task_name", None, "A task whose official files lie in --data_dir: cola, sst-2, mrpc, sts-b, qqp, mnli, "
         "qnli, rte, wnli or ax of GLUE, or xnli."),  # fmt: skip
    Flag("data_dir", None, "The folder of --task_name, with train.tsv, dev.tsv and test.tsv, or whatever the task's "
         "files are called."),  # fmt: skip
    Flag("xnli_language", None, "The language of xnli, as its files call it; default: en."),
)

COLUMNS = (
    Flag("text_column", ["text"], "Column of the text, by name or by number from 0; two, with a comma between them, "
         "for pairs.", "list"),  # fmt: skip
    Flag("label_column", "label", "Column of the label, by name or by number from 0."),
)

PROBLEM = (
    Flag("problem_type", "single_label", "What a label is, in files of your own: one name; several, with "
         "--label_separator between them; or a number.", choices=names.PROBLEMS),  # fmt: skip
    Flag("label_separator", ",", "What stands between the labels of an example with several."),
)

CALIBRATION = (
    Flag("fit_temperature", False, "With --do_eval: fit the temperature by which probabilities are most honest on "
         "--eval_file, and keep it with the model.", "bool"),  # fmt: skip
)

ABSTENTION = (
    Flag("fit_abstention", None, "With --do_eval: choose on --eval_file the least probability at which this share of "
         "the answers is right, such as 0.95; keep it with the model, and say of each answer whether it is confident.",
         "float", low=0, high=1),  # fmt: skip
)

LONG_TEXT = (
    Flag("long_text", "truncate", "Of texts over --max_seq_length: cut the end off, or read them through overlapping "
         "windows and average the answers.", choices=("truncate", "window")),  # fmt: skip
    Flag("doc_stride", None, "Word pieces from the start of one window to that of the next; default: half of "
         "--max_seq_length.", "integer", low=1),  # fmt: skip
    Flag("max_windows", 32, "Most windows of a text; the rest is cut.", "integer", low=1),
)

_EXAMPLES = "Examples as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"
FILES = (
    Flag("train_file", None, f"{_EXAMPLES}, to train on."),
    Flag("eval_file", None, f"{_EXAMPLES}, to score on."),
    Flag("predict_file", None, f"{_EXAMPLES}, to answer for."),
    Flag("header", True, "Whether line 1 of a .tsv or .csv file names its columns.", "bool"),
)

FLAGS = (*FILES, *GLUE_TASK, *COLUMNS, *PROBLEM, *CALIBRATION, *LONG_TEXT, *ABSTENTION)
