"""Flags of the tasks, for the commands that train them; imports no TensorFlow."""

from bert_tf.utils import names
from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import Flag

# === Classification ===
# Flags of classification: which texts, and what a label is.


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

CLASSIFICATION_FLAGS = (*FILES, *GLUE_TASK, *COLUMNS, *PROBLEM, *CALIBRATION, *LONG_TEXT, *ABSTENTION)


# === Embedding ===
# Flags of training on pairs of texts.


LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet")
EVALUATIONS = ("auto", "spearman", "retrieval")

_PAIRS = "Pairs of texts as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"
EMBEDDING_FLAGS = (
    Flag("train_file", None, f"{_PAIRS}, to train on."),
    Flag("eval_file", None, f"{_PAIRS}, to score on."),
    Flag("predict_file", None, "Texts, or pairs of them, to answer for, in a table likewise."),
    Flag("header", True, "Whether line 1 of a .tsv or .csv file names the columns.", "bool"),
    Flag("task_name", None, "Instead of files: a task of GLUE whose pairs have scores, sts-b, from --data_dir."),
    Flag("data_dir", None, "The folder of --task_name."),
    Flag("text_column", ["text_a", "text_b"], "Columns of the two texts of a pair, by name or by number from 0; a "
         "third one of texts that do not belong to the first.", "list"),  # fmt: skip
    Flag("label_column", "label", "Column of the pair's score, for losses and evaluations that read one."),
    Flag("highest_score", None, "The score of two texts that mean the same: scores are divided by it; default: 1, or "
         "what --task_name has.", "float", low=1e-6),  # fmt: skip
    Flag("loss", "in_batch_negatives", "What training aims at: that a pair's texts are nearer than those of other "
         "pairs of the batch; that the cosine is the score; that pairs of score 1 are near and pairs of 0 apart; that "
         "the second text is nearer than the third.", choices=LOSSES),  # fmt: skip
    Flag("temperature", 0.05, "Of in_batch_negatives: cosines are divided by it.", "float", low=1e-6),
    Flag("margin", 0.5, "Of contrastive and triplet: how far apart, in cosines, is far enough.", "float", low=0,
         high=2),  # fmt: skip
    Flag("eval_by", "auto", "Scores and cosines by rank correlation, or how often a first text finds its second among "
         "all; auto: what the loss reads.", choices=EVALUATIONS),  # fmt: skip
    Flag("layers", None, "Whose features are pooled, by name; default: what --init_checkpoint says, else last.",
         choices=names.LAYERS),  # fmt: skip
    Flag("pooling", None, "What one vector is made of; several with commas between them stand side by side; default: "
         "what --init_checkpoint says, else mean.", "list", choices=names.POOLINGS),  # fmt: skip
    Flag("normalize", None, "Divide each vector by its length; default: what --init_checkpoint says, else false.",
         "bool"),  # fmt: skip
)


# === Multiple choice ===
# Flags of multiple choice.


_QUESTIONS = "Questions as SWAG's .csv, or as .jsonl or .parquet with context, choices and label; also packed (.gz)"
MULTIPLE_CHOICE_FLAGS = (
    Flag("train_file", None, f"{_QUESTIONS}, to train on."),
    Flag("eval_file", None, f"{_QUESTIONS}, to score on."),
    Flag("predict_file", None, f"{_QUESTIONS}, to answer; labels are ignored."),
    *ABSTENTION,
)


# === Question answering ===
# Flags of question answering, google-research/bert's except --eval_file.


_OPTIONS_QUESTIONS = "Questions in SQuAD's format, 1.1 or 2.0, also packed (.json.gz)"
SQUAD_FLAGS = (
    Flag("train_file", None, f"{_OPTIONS_QUESTIONS}, to train on."),
    Flag("eval_file", None, f"{_OPTIONS_QUESTIONS}, to score on."),
    Flag("predict_file", None, f"{_OPTIONS_QUESTIONS}, to answer; scored too where it has the answers."),
    Flag("doc_stride", 128, "Word pieces from the start of one window of a context to that of the next.",
         "integer", low=1),  # fmt: skip
    Flag("max_query_length", 64, "Longest question in word pieces; the rest is cut.", "integer", low=1),
    Flag("n_best_size", 20, "Answers to each question in nbest_predictions.json.", "integer", low=1),
    Flag("max_answer_length", 30, "Longest answer in word pieces.", "integer", low=1),
    Flag("version_2_with_negative", False, "Questions may have no answer (SQuAD 2.0).", "bool"),
    Flag("null_score_diff_threshold", None, "With --version_2_with_negative: a question has no answer if no answer "
         "scores higher than the best one by more than this. Default: what --do_eval found to be best, else 0.",
         "float"),  # fmt: skip
    Flag("verbose_logging", False, "Log every question of --do_predict with its answer and scores.", "bool"),
)


# === Tagging ===
# Flags of tagging.


_SENTENCES = "Sentences as columns, a word per line (CoNLL's format), or .jsonl with tokens and tags; also packed (.gz)"
TAGGING_FLAGS = (
    Flag("train_file", None, f"{_SENTENCES}, to train on."),
    Flag("eval_file", None, f"{_SENTENCES}, to score on."),
    Flag("predict_file", None, f"{_SENTENCES}, to tag; tags are ignored."),
    Flag("text_column", 0, "Column of the word, by number from 0; a negative one counts from the end.", "integer"),
    Flag("tag_column", -1, "Column of the tag, likewise.", "integer"),
    Flag("features", None, "Freeze the encoder and tag by these of its layers, with two layers of BiLSTM on them; "
         "default: fine-tune the encoder.", choices=LAYERS),  # fmt: skip
    Flag("tag_scheme", "auto", "How tags mark where an entity begins and ends; auto: detected from the tags.",
         choices=("auto", "iob1", "iob2", "bioes")),  # fmt: skip
    Flag("doc_stride", None, "In sentences over --max_seq_length, word pieces from the start of one window to that of "
         "the next; default: half of --max_seq_length.", "integer", low=1),  # fmt: skip
)
