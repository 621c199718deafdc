"""The best spans, compared with every span that there is."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.question_answering.spans import best_spans, null_score

NONE = float("-inf")


def _by_hand(start, end, is_context, longest, k):
    """Returns [(score, first, last)] of one row, the k best of all pairs."""
    context = np.flatnonzero(is_context)
    spans = [(start[i] + end[j], i, j) for i in context for j in context if i <= j < i + longest]
    return sorted(spans, key=lambda span: (-span[0], span[1], span[2]))[:k]


@pytest.mark.parametrize(
    ("longest", "k", "compiled"),
    [(1, 3, False), (4, 7, False), (30, 20, True), pytest.param(500, 1, True, marks=pytest.mark.slow)],
)
def test_every_pair_is_looked_at(longest, k, compiled):
    rng = np.random.default_rng(longest)
    start, end = rng.integers(-6, 6, (2, 40, 17)).astype(np.float32)  # whole numbers: ties
    is_context = (np.arange(17) >= rng.integers(0, 17, (40, 1))) & (np.arange(17) < rng.integers(0, 18, (40, 1)))
    find = tf.function(lambda *rows: best_spans(*rows, longest, k), jit_compile=compiled)
    scores, firsts, lasts = (part.numpy() for part in find(start, end, is_context))
    assert scores.shape == firsts.shape == lasts.shape == (40, k) and firsts.dtype == lasts.dtype == np.int32
    assert (firsts >= 0).all() and (lasts < 17).all()
    for row in range(40):
        expected = _by_hand(start[row], end[row], is_context[row], longest, k)
        found = list(zip(scores[row].tolist(), firsts[row].tolist(), lasts[row].tolist(), strict=True))
        assert found[: len(expected)] == expected
        assert scores[row, len(expected) :].tolist() == [NONE] * (k - len(expected))


def test_the_best_pair_need_not_have_the_best_ends():
    """The 24 best starts all lie behind the 24 best ends: google-research/bert's 20 x 20 would find nothing."""
    start = np.where(np.arange(64) >= 40, 9.0, 0.0).astype(np.float32)[None]
    score, first, last = best_spans(start, start[:, ::-1].copy(), np.ones((1, 64), bool), 5, 1)
    assert [part.numpy().item() for part in (score, first, last)] == [9, 0, 0]


def test_no_answer_scores_what_cls_scores():
    rows = tf.constant([[1.0, 5.0], [2.0, 7.0]])
    assert null_score(rows, rows * 10).numpy().tolist() == [11, 22]
