"""The best answer spans of a sequence, in the graph: those with the largest sum of the logits of start and end."""

import tensorflow as tf


def best_spans(start_logits, end_logits, is_context, max_answer_length: int, k: int):
    """Finds the k spans with the largest start + end logit exactly, considering all allowed pairs.

    google-research/bert's run_squad.py combines the `n_best_size` best starts and ends, and may therefore miss the
    best allowed pair.

    Args:
        start_logits, end_logits: float32 [B, S].
        is_context: bool [B, S]: tokens where a span may begin or end.
        max_answer_length: maximum tokens per span.
        k: number of spans.

    Returns:
        score float32 [B, k], descending; start and end int32 [B, k], the positions of the first and last token in the
        sequence. On ties, the span that begins first comes first, then the shorter one. If there are fewer than k
        spans, the score of the others is -inf and their positions are arbitrary.
    """
    width = tf.shape(start_logits)[1]
    none = tf.constant(float("-inf"))
    starts, ends = (tf.where(is_context, logits, none) for logits in (start_logits, end_logits))
    behind = tf.pad(ends, [[0, 0], [0, max_answer_length - 1]], constant_values=float("-inf"))
    sums = tf.stack([starts + behind[:, extra : extra + width] for extra in range(max_answer_length)], axis=-1)
    sums = tf.reshape(sums, [-1, width * max_answer_length])
    sums = tf.pad(sums, [[0, 0], [0, k]], constant_values=float("-inf"))  # sequences of few tokens have fewer spans
    score, index = tf.math.top_k(sums, k)
    index = tf.where(score > none, index, 0)
    start = index // max_answer_length
    return score, start, start + index % max_answer_length


def null_score(start_logits, end_logits):
    """Returns the no-answer score, float32 [B]: the sum of the logits at [CLS] (Devlin et al. 2018, section 4.3)."""
    return start_logits[:, 0] + end_logits[:, 0]
