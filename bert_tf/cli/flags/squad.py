"""Flags of SQuAD's scorer."""

from bert_tf.utils.settings import Flag

SCORER = (
    Flag("data_file", None, "Questions and the answers that people gave: a file in SQuAD's format, 1.1 or 2.0.",
         required=True),  # fmt: skip
    Flag("predictions_file", None, "The answers to score: predictions.json, an object of texts by question id.",
         required=True),  # fmt: skip
    Flag("null_odds_file", None, "SQuAD 2.0: null_odds.json, an object of numbers by question id, greater where no "
         "answer is likelier; gives the best thresholds."),  # fmt: skip
    Flag("null_score_diff_threshold", 1.0, "With --null_odds_file: odds above it count as no answer (the official "
         "script's --na-prob-thresh).", "float"),  # fmt: skip
)
