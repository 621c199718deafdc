"""Answers for examples of one sequence each, or of the windows of a long text: classes, values and embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.lite.label_outputs import SERVED
from bert_tf.lite.packing import windows
from bert_tf.lite.reading import Reading
from bert_tf.tokenization.window_sizes import kept_of_pair

Task = Mapping[str, Any]
Columns = Sequence[Sequence[str]]


def answer_texts(reading: Reading, task: Task, columns: Columns) -> dict[str, np.ndarray]:
    """Returns the outputs of a classifier or regression model for n texts or pairs: {name: array [n, ...]}."""
    examples = (map(reading.tokenize, example) for example in zip(*columns, strict=True))
    if windowing := task.get("windows"):
        return SERVED[task["problem"]](task, np.stack([_mean_logits(reading, windowing, *ids) for ids in examples]))
    return _stack([reading.compute(*ids) for ids in examples])


def embed_texts(reading: Reading, task: Task, columns: Columns) -> dict[str, np.ndarray]:
    """Returns {"embedding": float32 [n, D]} for n texts, with the model's default prompt before each."""
    prompt = task.get("prompts", {}).get(task.get("default_prompt"), "")
    return _stack([reading.compute(reading.tokenize(prompt + text)) for text in columns[0]])


def _stack(rows):
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _mean_logits(reading, windowing, *ids):
    """Returns the mean of the logits of a text's windows, float32 [L]; of a pair, the second text has the windows."""
    *first, last = ids
    room = reading.packer.room(len(ids))
    if first:
        keep, _ = kept_of_pair(len(first[0]), len(last), room)
        first, room = [first[0][:keep]], room - keep
    read = min(len(last), room + (windowing["max_windows"] - 1) * min(windowing["stride"], room))
    parts = windows(read, room, windowing["stride"])
    logits = [reading.compute(*first, last[start:end])["logits"][0] for start, end in parts]
    return np.sum(logits, 0) / np.float32(len(logits))
