"""Answers for examples of one sequence each, or of the windows of a long text: classes, values and embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.lite.packing import pair_lengths, windows
from bert_tf.lite.reading import Reading

Task = Mapping[str, Any]
Columns = Sequence[Sequence[str]]


def answer_texts(reading: Reading, task: Task, columns: Columns) -> dict[str, np.ndarray]:
    """Returns the outputs of a classifier or regression model for n texts or pairs: {name: array [n, ...]}."""
    if windowing := task.get("windows"):
        logits = [_mean_logits(reading, windowing, *map(reading.tokenize, example)) for example in zip(*columns)]  # noqa: B905
        return serve_logits(task, np.stack(logits))
    return _stack([reading.compute(*map(reading.tokenize, example)) for example in zip(*columns, strict=True)])


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
        keep, _ = pair_lengths(len(first[0]), len(last), room)
        first, room = [first[0][:keep]], room - keep
    read = min(len(last), room + (windowing["max_windows"] - 1) * min(windowing["stride"], room))
    parts = windows(read, room, windowing["stride"])
    logits = [reading.compute(*first, last[start:end])["logits"][0] for start, end in parts]
    return np.sum(logits, 0) / np.float32(len(logits))


def serve_logits(task: Task, logits: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the outputs for logits float32 [n, L] that are means, as the graph does for those of one sequence."""
    if task["problem"] == "regression":
        return {"score": logits[:, 0]}
    logits = logits / np.float32(task.get("temperature", 1))
    labels = np.array([label.encode() for label in task["labels"]], object)
    if task["problem"] == "multi_label":
        thresholds = np.asarray(task.get("thresholds", 0.5), np.float32)
        probabilities = 1 / (1 + np.exp(-logits))
        predicted = probabilities > thresholds
        confidence, own = np.where(predicted, probabilities, 1 - probabilities).min(-1), {"predicted": predicted}
    else:
        shifted = np.exp(logits - logits.max(-1, keepdims=True))
        probabilities = shifted / shifted.sum(-1, keepdims=True)
        confidence, own = probabilities.max(-1), {}
    if abstention := task.get("abstention"):
        own["confident"] = confidence >= np.float32(abstention["threshold"])
    served = {"label": labels[logits.argmax(-1)], "probabilities": probabilities}
    return served | {"labels": np.tile(labels, (len(logits), 1))} | own
