"""The best spans of a row: of all pairs of a first and a last piece, those of greatest sum of logits. In the graph."""

import tensorflow as tf


def best_spans(start_logits, end_logits, is_context, max_answer_length: int, k: int):
    """Finds the k spans of greatest start + end logit exactly: every allowed pair is looked at.

    google-research/bert's run_squad.py pairs the `n_best_size` best starts with as many best ends, and may so miss the
    best pair that is allowed.

    Args:
        start_logits, end_logits: float32 [B, S].
        is_context: bool [B, S]: a span begins and ends at such pieces.
        max_answer_length: pieces of a span at most.
        k: how many.

    Returns:
        score float32 [B, k], descending; start and end int32 [B, k], the places of the first and last piece in the row.
        Of equal scores the span that begins first comes first, then the shorter one. Where there are fewer spans than
        k, the score of the others is -inf and their places lie anywhere in the row.
    """
    width = tf.shape(start_logits)[1]
    none = tf.constant(float("-inf"))
    starts, ends = (tf.where(is_context, logits, none) for logits in (start_logits, end_logits))
    behind = tf.pad(ends, [[0, 0], [0, max_answer_length - 1]], constant_values=float("-inf"))
    sums = tf.stack([starts + behind[:, extra : extra + width] for extra in range(max_answer_length)], axis=-1)
    sums = tf.reshape(sums, [-1, width * max_answer_length])
    sums = tf.pad(sums, [[0, 0], [0, k]], constant_values=float("-inf"))  # rows of few pieces have fewer spans than k
    score, place = tf.math.top_k(sums, k)
    place = tf.where(score > none, place, 0)
    start = place // max_answer_length
    return score, start, start + place % max_answer_length


def null_score(start_logits, end_logits):
    """Returns float32 [B]: the score of no answer, the logits at [CLS] (Devlin et al. 2018, section 4.3)."""
    return start_logits[:, 0] + end_logits[:, 0]
