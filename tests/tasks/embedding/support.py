"""Pairs that a tiny model can learn from, and the run that does so."""

import types

import numpy as np

from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny


def pairs(n, seed=0):
    """A good or bad word and others; its pair has the same word, and the others in another order."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        word, rest = rng.choice(tiny.GOOD + tiny.BAD), rng.choice(tiny.FILL, 3).tolist()
        rows.append((" ".join([*rest, word]), " ".join([word, *rest[::-1]])))
    return rows


def run(**given):
    run_task(EmbeddingTask, task_settings(EmbeddingTask)().give(given))


def described(config=None):
    return types.SimpleNamespace(config=config or tiny.config(), tokenizer=WordPieceTokenizer(tiny.VOCAB))


def unit_vectors(*shape):
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
