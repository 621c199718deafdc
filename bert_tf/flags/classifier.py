"""Flags of classification: which texts, and what a label is."""

from bert_tf import names
from bert_tf.settings import Flag

GLUE_TASK = (
    Flag("task_name", None, "A task whose official files lie in --data_dir: cola, sst-2, mrpc, sts-b, qqp, mnli, "
         "qnli, rte, wnli or ax of GLUE, or xnli."),  # fmt: skip
    Flag("data_dir", None, "The folder of --task_name, with train.tsv, dev.tsv and test.tsv, or what else the task's "
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
