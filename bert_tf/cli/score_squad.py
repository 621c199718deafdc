"""Scores answers to SQuAD as the official scripts do: one JSON object on standard output.

    bert-tf score_squad --data_file=dev-v1.1.json --predictions_file=predictions.json
    bert-tf score_squad --data_file=dev-v2.0.json --predictions_file=predictions.json --null_odds_file=null_odds.json

Messages about the files go to standard error.
"""

from bert_tf.cli.flags.squad import SCORER
from bert_tf.utils.json_files import json_text

FLAGS = SCORER


def main(settings):
    """Prints the scores."""
    from bert_tf.evaluation import squad_files, squad_scores

    if "null_score_diff_threshold" in settings.given and not settings.null_odds_file:
        raise ValueError(
            "--null_score_diff_threshold must come with --null_odds_file. Received it alone; name the file, or leave "
            "it out."
        )
    golds = squad_files.read_golds(settings.data_file)
    predictions = squad_files.read_predictions(settings.predictions_file)
    null_odds = squad_files.read_null_odds(settings.null_odds_file) if settings.null_odds_file else None
    scores = squad_scores.score(golds, predictions, null_odds, settings.null_score_diff_threshold)
    print(json_text(scores, indent=2))
