"""Scores of texts as output columns, for `cli/score_text.py`."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.inference.masked_lm import open_masked_lm
from bert_tf.inference.score_text import TextScore, TextScorer, measure_of
from bert_tf.inference.sentence_encoder import hash_model

NUMBER = "num_tokens"


@dataclasses.dataclass(frozen=True)
class ScoreMaker:
    """Creates the function from rows of texts to their scores; a `table_job.Maker`.

    Attributes:
        path, vocab_file, do_lower_case, max_seq_length: as in `TextScorer`.
        tokens: also return each token and its log-probability.
    """

    path: str
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int | None = None
    tokens: bool = False

    @functools.cached_property
    def measure(self) -> str:
        """The measure of the `TextScorer`; raises the same errors."""
        return measure_of(open_masked_lm(self.path, self.vocab_file, self.do_lower_case)[1])

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that affects the results, as JSON values."""
        values = dataclasses.asdict(self)
        values |= {name: values[name] and os.path.realpath(values[name]) for name in ("path", "vocab_file")}
        return values | hash_model(self.path, None, self.vocab_file, self.do_lower_case)

    def __call__(self) -> Callable:
        scorer = TextScorer(self.path, self.vocab_file, self.do_lower_case, self.max_seq_length)
        return lambda rows: score_columns(rows.ids, rows.texts[0], scorer(rows.texts[0]), scorer.measure, self.tokens)


def score_columns(
    ids: Sequence, texts: Sequence[str], scores: Sequence[TextScore], measure: str, tokens: bool = False
) -> dict[str, Any]:
    """Returns the scores as columns: id, text, `measure`, per_token, num_tokens; with `tokens`, each token too."""
    numbers = [len(score.tokens) for score in scores]
    found = {
        "id": list(ids),
        "text": list(texts),
        measure: np.array([score.total for score in scores], np.float32),
        "per_token": np.array([score.per_token for score in scores], np.float32),
        NUMBER: np.array(numbers, np.int32),
    }
    if not tokens:
        return found
    written = np.array([token for score in scores for token in score.tokens], dtype=str)
    values = np.concatenate([score.log_probabilities for score in scores])
    lists = {"tokens": written, "log_probabilities": values}
    return found | {name: Ragged.of_lengths(flat, numbers) for name, flat in lists.items()}
