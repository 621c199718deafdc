"""Answers for examples of a text and a list of texts: the choices of a question, or the documents of a query."""

from collections.abc import Sequence

import numpy as np

from bert_tf.lite.label_outputs import mark_confident
from bert_tf.lite.reading import Reading
from bert_tf.lite.single_sequences import Task

MISSING = np.float32(-1e30)  # the logit of a text that a list lacks: its exponential is 0
_SPACES = "\t\n\v\f\r "  # what tf.strings.strip removes


def choose(reading: Reading, task: Task, columns: tuple[Sequence[str], Sequence[Sequence[str]]]) -> dict:
    """Returns `choice` int32 [n], `probabilities` float32 [n, k] and, with an abstention, `confident` bool [n]."""
    logits = _logits(reading, *columns)
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = np.where(logits > MISSING / 2, shifted / shifted.sum(-1, keepdims=True), np.float32(0))
    choice = np.where((probabilities > 0).any(-1), probabilities.argmax(-1), -1).astype(np.int32)
    served = {"choice": choice, "probabilities": probabilities}
    return served | mark_confident(task, probabilities.max(-1))


def rank(reading: Reading, task: Task, columns: tuple[Sequence[str], Sequence[Sequence[str]]]) -> dict:
    """Returns `scores` float32 [n, k], 0 for missing documents, and `order` int32 [n, k], -1 for these, at the end."""
    logits = _logits(reading, *columns)
    there = logits > MISSING / 2
    with np.errstate(over="ignore"):
        scores = 1 / (1 + np.exp(-logits)) if task["activation"] == "sigmoid" else logits
    order = np.argsort(-logits, -1, kind="stable").astype(np.int32)
    return {
        "scores": np.where(there, scores, np.float32(0)),
        "order": np.where(np.take_along_axis(there, order, -1), order, -1).astype(np.int32),
    }


def _logits(reading, firsts, lists):
    """Returns the logits of each example's texts, float32 [n, k], `MISSING` for those that are blank."""
    logits = np.full([len(firsts), max(map(len, lists))], MISSING, np.float32)
    for row, (first, texts) in enumerate(zip(firsts, lists, strict=True)):
        ids = reading.tokenize(first)
        for column, text in enumerate(texts):
            own = reading.tokenize(text)
            if text.strip(_SPACES):
                logits[row, column] = reading.compute(ids, own)["logits"][0, 0]
            else:
                reading.count_sequence(ids, own)
    return logits
