"""A whole probing of one model and one file: what is right by each layer, beside its control."""

import dataclasses
import math
from typing import Any

import numpy as np
from absl import logging

from bert_tf.interpret.probing import control, features
from bert_tf.interpret.probing.examples import Labelled
from bert_tf.interpret.probing.probe import Probed, probe
from bert_tf.utils.files import brief

_FEW = 2  # labels that can be told apart


@dataclasses.dataclass(frozen=True)
class Options:
    """How features are computed and probes trained.

    Attributes:
        max_seq_length: longest row in pieces.
        seed: of the control's labels and of the order of training.
        epochs: None: as `probe.probe` chooses.
        folder: where features are kept that memory does not hold.
    """

    max_seq_length: int
    seed: int
    folder: str
    epochs: int | None = None


def run(bert: Any, train: Labelled, test: Labelled, options: Options) -> dict:
    """Probes a model.

    Args:
        bert: what `bert_tf.load` gave.
        train, test: examples to learn from, and to be right on.
        options: see there.

    Returns:
        what probe.json holds; docs/probe.md says it.

    Raises:
        ValueError: there are not two labels to tell apart.
    """
    labels = sorted({label for each in train.labels for label in each})
    if len(labels) < _FEW:
        raise ValueError(
            f"{train.path}: there must be two labels to tell apart. Received {brief(labels)}; choose another column."
        )
    seen, held = (features.compute(bert, each, options.max_seq_length, options.folder) for each in (train, test))
    held = _known(held, labels, test.path)
    ids = {label: i for i, label in enumerate(labels)}
    targets, held_targets = (np.array([ids[label] for label in each.labels], np.int32) for each in (seen, held))
    random, held_random = (
        control.control_labels(seen.types, types, targets, options.seed) for types in (seen.types, held.types)
    )
    found = probe(
        *(seen.values, np.stack([targets, random], 1), held.values, np.stack([held_targets, held_random], 1)),
        *(len(labels), options.seed, options.epochs),
    )
    counts = {"train": len(seen.labels), "eval": len(held.labels)}
    return _results(found, labels, counts, control.baselines(seen.types, targets, held.types, held_targets))


def _known(held, labels, path):
    """Returns the features whose label training has: of another no probe can be right."""
    there = np.array([label in set(labels) for label in held.labels])
    if there.all():
        return held
    strange = sorted({label for label, known in zip(held.labels, there, strict=True) if not known})
    logging.warning("%s: %d of %d labels do not occur in training and are left out: %s.",
                    *(path, (~there).sum(), len(there), brief(strange)))  # fmt: skip
    if not there.any():
        raise ValueError(
            f"{path} must have labels that training has. Received none of them: {brief(strange)}; check the column."
        )
    chosen = np.flatnonzero(there)
    return features.Features(held.values[chosen], *([each[i] for i in chosen] for each in (held.types, held.labels)))


def _results(found: Probed, labels, counts, baselines):
    def scores(right, by_control, count):
        error = math.sqrt(right * (1 - right) / count)
        return {"accuracy": right, "standard_error": error, "control": by_control, "selectivity": right - by_control}

    pairs = zip(*found.layers.tolist(), strict=True)
    layers = [{"layer": n, **scores(*pair, counts["eval"])} for n, pair in enumerate(pairs)]
    mix = scores(*found.mix.tolist(), counts["eval"]) | {"weights": found.mix_weights[0].tolist()}
    return {"examples": counts, "labels": labels, "layers": layers, "mix": mix, "baselines": baselines}
