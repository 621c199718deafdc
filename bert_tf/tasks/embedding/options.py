"""Flags of training on pairs of texts. Light: --help needs no TensorFlow."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet")
EVALUATIONS = ("auto", "spearman", "retrieval")

_PAIRS = "Pairs of texts as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"
FLAGS = (
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
