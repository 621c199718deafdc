"""The outputs of a classifier for logits, as the graph computes them, for means over a long text's windows."""

import numpy as np


def _serve_value(task, logits):
    return {"score": logits[:, 0]}


def _serve_label(task, logits):
    logits = logits / np.float32(task.get("temperature", 1))
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = shifted / shifted.sum(-1, keepdims=True)
    return _serve_labels(task, probabilities) | mark_confident(task, probabilities.max(-1))


def _serve_several_labels(task, logits):
    probabilities = 1 / (1 + np.exp(-logits / np.float32(task.get("temperature", 1))))
    predicted = probabilities > np.asarray(task.get("thresholds", 0.5), np.float32)
    confidence = np.where(predicted, probabilities, 1 - probabilities).min(-1)
    return _serve_labels(task, probabilities) | {"predicted": predicted} | mark_confident(task, confidence)


# problem -> (options of the task, logits float32 [n, L]) -> {output: array [n, ...]}
SERVED = {"regression": _serve_value, "single_label": _serve_label, "multi_label": _serve_several_labels}


def _serve_labels(task, probabilities):
    labels = np.array([label.encode() for label in task["labels"]], object)
    served = {"label": labels[probabilities.argmax(-1)], "probabilities": probabilities}
    return served | {"labels": np.tile(labels, (len(probabilities), 1))}


def mark_confident(task, probability):
    """Returns {"confident": bool [n]}; {} without abstention."""
    abstention = task.get("abstention")
    return {"confident": probability >= np.float32(abstention["threshold"])} if abstention else {}
