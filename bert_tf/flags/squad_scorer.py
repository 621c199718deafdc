"""Flags of SQuAD's scorer."""

from absl import flags


def define_squad_scorer():
    """Which answers are scored against which."""
    flags.DEFINE_string("data_file", None, "Questions and the answers that people gave: a file in SQuAD's format, 1.1 "
                        "or 2.0.", required=True)  # fmt: skip
    flags.DEFINE_string("predictions_file", None, "The answers to score: predictions.json, an object of texts by "
                        "question id.", required=True)  # fmt: skip
    flags.DEFINE_string("null_odds_file", None, "SQuAD 2.0: null_odds.json, an object of numbers by question id, "
                        "greater where no answer is likelier; gives the best thresholds.")  # fmt: skip
    flags.DEFINE_float("null_score_diff_threshold", 1.0, "With --null_odds_file: odds above it count as no answer "
                       "(the official script's --na-prob-thresh).")  # fmt: skip
