"""Answers to questions: the best span of a context, read through windows."""

from collections.abc import Sequence

import numpy as np

from bert_tf.lite.packing import windows
from bert_tf.lite.reading import Reading
from bert_tf.lite.single_sequences import Task


def answer_questions(reading: Reading, task: Task, columns: tuple[Sequence[str], Sequence[str]]) -> dict:
    """Returns `answer` (bytes), `start` and `end` int32, `score` and `null_score` float32, each [n], of n questions."""
    rows = [_answer(reading, task, *example) for example in zip(*columns, strict=True)]
    dtypes = {"answer": object, "start": np.int32, "end": np.int32, "score": np.float32, "null_score": np.float32}
    return {name: np.array([row[name] for row in rows], dtype) for name, dtype in dtypes.items()}


def _answer(reading, task, question, context):
    asked = reading.tokenize(question)[: task["max_query_length"]]
    ids, starts, ends = reading.tokenize_with_offsets(context)
    room = reading.packer.room(2) - len(asked)
    first = len(reading.packer.before) + len(asked) + len(reading.packer.between)
    best, null = (-np.inf, 0, 0), np.inf
    for begin, end in windows(len(ids), room, task["doc_stride"]):
        outputs = reading.compute(asked, ids[begin:end])
        start_logits, end_logits = outputs["start_logits"][0], outputs["end_logits"][0]
        null = min(null, start_logits[0] + end_logits[0])
        inside = slice(first, first + end - begin)
        score, i, j = best_span(start_logits[inside], end_logits[inside], task["max_answer_length"])
        if score > best[0]:
            best = score, begin + i, begin + j
    score, i, j = best
    found = {"score": score if score > -np.inf else 0.0, "null_score": null}
    threshold = task["null_score_diff_threshold"]
    if score == -np.inf or (threshold is not None and null - found["score"] > np.float32(threshold)):
        return found | {"answer": b"", "start": 0, "end": 0}
    return found | {"answer": context[starts[i] : ends[j]].encode(), "start": starts[i], "end": ends[j]}


def best_span(start_logits: np.ndarray, end_logits: np.ndarray, max_answer_length: int) -> tuple[float, int, int]:
    """Returns (score, first token, last token) of the span with the largest sum of logits; score -inf without tokens.

    Of equal spans, it is the one that begins first, and of these the shortest.
    """
    count = len(start_logits)
    if not count:
        return -np.inf, 0, 0
    behind = np.pad(end_logits, (0, max_answer_length - 1), constant_values=-np.inf)
    sums = start_logits[:, None] + np.lib.stride_tricks.sliding_window_view(behind, max_answer_length)
    start, extra = divmod(int(sums.argmax()), max_answer_length)
    return sums[start, extra], start, start + extra
