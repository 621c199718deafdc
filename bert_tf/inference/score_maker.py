"""Scores of texts as columns of a table, for `cli/score_text.py`."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoints.model_files import load_description
from bert_tf.data.ragged import Ragged
from bert_tf.inference.masked_lm import open_masked_lm
from bert_tf.inference.sentence_encoder import weights_hash
from bert_tf.inference.text_scorer import TextScore, TextScorer, measure_of

NUMBER = "num_pieces"


@dataclasses.dataclass(frozen=True)
class ScoreMaker:
    """Makes the function from rows of texts to their scores; a `jobs.table_job.Maker`.

    Attributes:
        path, vocab_file, do_lower_case, max_seq_length: as of `TextScorer`.
        pieces: with each piece and its log-probability.
    """

    path: str
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int | None = None
    pieces: bool = False

    @functools.cached_property
    def measure(self) -> str:
        """As of `TextScorer`; raises as it does."""
        return measure_of(open_masked_lm(self.path, self.vocab_file, self.do_lower_case)[1])

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the answers."""
        values = dataclasses.asdict(self)
        values |= {name: values[name] and os.path.realpath(values[name]) for name in ("path", "vocab_file")}
        described = load_description([self.path], vocab_file=self.vocab_file, do_lower_case=self.do_lower_case)
        return values | {"weights": weights_hash(self.path), "tokenizer or configuration": described.digest()}

    def __call__(self) -> Callable:
        scorer = TextScorer(self.path, self.vocab_file, self.do_lower_case, self.max_seq_length)
        return lambda rows: columns(rows.ids, rows.texts[0], scorer(rows.texts[0]), scorer.measure, self.pieces)


def columns(
    ids: Sequence, texts: Sequence[str], scores: Sequence[TextScore], measure: str, pieces: bool = False
) -> dict[str, Any]:
    """Returns the scores as columns: id, text, `measure`, per_piece, num_pieces; with `pieces` each of them too."""
    numbers = [len(score.pieces) for score in scores]
    found = {
        "id": list(ids),
        "text": list(texts),
        measure: np.array([score.total for score in scores], np.float32),
        "per_piece": np.array([score.per_piece for score in scores], np.float32),
        NUMBER: np.array(numbers, np.int32),
    }
    if not pieces:
        return found
    written = np.array([piece for score in scores for piece in score.pieces], dtype=str)
    values = np.concatenate([score.log_probabilities for score in scores])
    lists = {"pieces": written, "log_probabilities": values}
    return found | {name: Ragged.of_lengths(flat, numbers) for name, flat in lists.items()}
