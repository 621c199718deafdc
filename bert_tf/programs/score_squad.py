"""Scores answers to SQuAD as the official scripts do: one JSON object on standard output.

    python -m bert_tf score_squad --data_file=dev-v1.1.json --predictions_file=predictions.json
    python -m bert_tf score_squad --data_file=dev-v2.0.json --predictions_file=predictions.json \\
        --null_odds_file=null_odds.json

What it says of the files goes to standard error.
"""

import json

from bert_tf import flags

flags.define_squad_scorer()
FLAGS = flags.FLAGS


def main():
    from bert_tf.evaluation import squad_files, squad_scores

    if FLAGS["null_score_diff_threshold"].present and not FLAGS.null_odds_file:
        raise ValueError(
            "--null_score_diff_threshold must come with --null_odds_file. Received it alone; name the file, or leave "
            "it out."
        )
    golds = squad_files.read_golds(FLAGS.data_file)
    predictions = squad_files.read_predictions(FLAGS.predictions_file)
    null_odds = squad_files.read_null_odds(FLAGS.null_odds_file) if FLAGS.null_odds_file else None
    print(json.dumps(squad_scores.score(golds, predictions, null_odds, FLAGS.null_score_diff_threshold), indent=2))


if __name__ == "__main__":
    flags.run(main)
