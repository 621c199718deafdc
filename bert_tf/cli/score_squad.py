"""Compute SQuAD exact match and F1 as the official scripts do.

    bert-tf benchmark squad-score --data_file=dev-v1.1.json \\
        --predictions_file=predictions.json
    bert-tf benchmark squad-score --data_file=dev-v2.0.json \\
        --predictions_file=predictions.json --null_odds_file=null_odds.json

Prints one JSON object to standard output, and messages about the files to
standard error.
"""

import dataclasses
from typing import ClassVar

from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class ScoreSquadSettings(UserSettings):
    """Answers to score."""

    GROUP: ClassVar[str] = "Data"

    data_file: str | None = option(
        None,
        "Questions with their true answers: a file in SQuAD format, 1.1 or 2.0.",
        required=True,
    )
    predictions_file: str | None = option(
        None,
        "Predictions to evaluate: predictions.json, an object from question ids to texts.",
        required=True,
    )
    null_odds_file: str | None = option(
        None,
        "For SQuAD 2.0: null_odds.json, an object from question ids to no-answer scores; higher means "
        "unanswerable. Adds the best thresholds.",
    )
    null_score_diff_threshold: float = option(
        1.0,
        "With --null_odds_file: threshold above which odds count as no answer (the official script's "
        "--na-prob-thresh).",
        group="Evaluation",
    )


SETTINGS = ScoreSquadSettings
FLAGS = flags_of(SETTINGS)


def main(settings: ScoreSquadSettings):
    """Prints the scores."""
    from bert_tf.evaluation import squad
    from bert_tf.evaluation.squad_files import read_null_odds, read_predictions, read_references

    if "null_score_diff_threshold" in settings.given and not settings.null_odds_file:
        raise ValueError("--null_score_diff_threshold requires --null_odds_file. Add --null_odds_file or remove it.")
    golds = read_references(settings.data_file)
    predictions = read_predictions(settings.predictions_file)
    null_odds = read_null_odds(settings.null_odds_file) if settings.null_odds_file else None
    scores = squad.score_squad(golds, predictions, null_odds, settings.null_score_diff_threshold)
    print(json_text(scores, indent=2))
