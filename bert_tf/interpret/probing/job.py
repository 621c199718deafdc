"""Probing of one model on one data file: accuracy of each layer's probe and of its control."""

import dataclasses
import math
from typing import Any

import numpy as np
from absl import logging

from bert_tf.interpret.probing import control
from bert_tf.interpret.probing.examples import Labelled
from bert_tf.interpret.probing.features import Features, compute
from bert_tf.interpret.probing.probe import Probed, train_probe
from bert_tf.utils.files import brief

_FEW = 2  # distinct labels


@dataclasses.dataclass(frozen=True)
class ProbeOptions:
    """Settings of the features and of the training of probes.

    Attributes:
        max_seq_length: longest sequence in tokens.
        seed: random seed of the control's labels and of the order of training.
        epochs: if None, as `probe.train_probe` chooses.
        folder: directory for features that do not fit in memory.
    """

    max_seq_length: int
    seed: int
    folder: str
    epochs: int | None = None


def run_probing(bert: Any, train: Labelled, test: Labelled, options: ProbeOptions) -> dict:
    """Trains and evaluates probes of a model.

    Args:
        bert: a model from `bert_tf.load`.
        train, test: examples for training and for evaluation.
        options: see `ProbeOptions`.

    Returns:
        The contents of probe.json; see docs/guides/interpretability.md.

    Raises:
        ValueError: there are fewer than two labels.
    """
    labels = sorted({label for each in train.labels for label in each})
    if len(labels) < _FEW:
        raise ValueError(
            f"{train.path}: at least two labels are required; got {brief(labels)}. Choose a column with several labels."
        )
    seen, held = (compute(bert, each, options.max_seq_length, options.folder) for each in (train, test))
    held = _keep_known_labels(held, labels, test.path)
    ids = {label: i for i, label in enumerate(labels)}
    targets, held_targets = (np.array([ids[label] for label in each.labels], np.int32) for each in (seen, held))
    random, held_random = (
        control.control_labels(seen.types, types, targets, options.seed) for types in (seen.types, held.types)
    )
    found = train_probe(
        *(seen.values, np.stack([targets, random], 1), held.values, np.stack([held_targets, held_random], 1)),
        *(len(labels), options.seed, options.epochs),
    )
    counts = {"train": len(seen.labels), "eval": len(held.labels)}
    return _results(found, labels, counts, control.baselines(seen.types, targets, held.types, held_targets))


def _keep_known_labels(held, labels, path):
    """Returns the features whose label occurs in training: no probe can predict others."""
    there = np.array([label in set(labels) for label in held.labels])
    if there.all():
        return held
    strange = sorted({label for label, known in zip(held.labels, there, strict=True) if not known})
    logging.warning("%s: %d of %d labels do not occur in training and are left out: %s.",
                    *(path, (~there).sum(), len(there), brief(strange)))  # fmt: skip
    if not there.any():
        raise ValueError(
            f"{path} contains none of the training labels, only {brief(strange)}. Check the column."
        )
    chosen = np.flatnonzero(there)
    return Features(held.values[chosen], *([each[i] for i in chosen] for each in (held.types, held.labels)))


def _results(found: Probed, labels, counts, baselines):
    def scores(right, by_control, count):
        error = math.sqrt(right * (1 - right) / count)
        return {"accuracy": right, "standard_error": error, "control": by_control, "selectivity": right - by_control}

    pairs = zip(*found.layers.tolist(), strict=True)
    layers = [{"layer": n, **scores(*pair, counts["eval"])} for n, pair in enumerate(pairs)]
    mix = scores(*found.mix.tolist(), counts["eval"]) | {"weights": found.mix_weights[0].tolist()}
    return {"examples": counts, "labels": labels, "layers": layers, "mix": mix, "baselines": baselines}
