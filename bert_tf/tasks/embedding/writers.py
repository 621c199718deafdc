"""Vectors, or the cosines of pairs, as a file."""

import os

import numpy as np

from bert_tf.evaluation.retrieval import cosines
from bert_tf.tasks.embedding.data import TextGroups
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

FILE = "predictions.jsonl"


def write_predictions(directory: str, groups: TextGroups, vectors: np.ndarray):
    """Writes a line for each example, in order: `id`, `text` and `embedding`; of a pair `text_a`, `text_b`, `cosine`.

    Args:
        directory: where it goes.
        groups: n texts or pairs.
        vectors: float32 [n, k, D] of their k texts.
    """
    names = ("text",) if len(groups.texts) == 1 else ("text_a", "text_b")
    answers = vectors[:, 0] if len(names) == 1 else cosines(vectors[:, 0], vectors[:, 1])
    with atomic_open(os.path.join(directory, FILE)) as file:
        for name, *texts, answer in zip(groups.ids, *groups.texts, answers, strict=True):
            key = "embedding" if answer.ndim else "cosine"
            line = {"id": name, **dict(zip(names, texts, strict=True)), key: answer.tolist()}
            file.write(json_text(line, ensure_ascii=False) + "\n")
