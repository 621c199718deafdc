"""Flags of question answering, google-research/bert's except --eval_file. Light: --help needs no TensorFlow."""

from bert_tf.utils.settings import Flag

_QUESTIONS = "Questions in SQuAD's format, 1.1 or 2.0, also packed (.json.gz)"
FLAGS = (
    Flag("train_file", None, f"{_QUESTIONS}, to train on."),
    Flag("eval_file", None, f"{_QUESTIONS}, to score on."),
    Flag("predict_file", None, f"{_QUESTIONS}, to answer; scored too where it has the answers."),
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
