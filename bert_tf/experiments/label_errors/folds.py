"""Cross-validation folds of a training file: the assignment of examples to folds, and the folds' files."""

import pathlib

import numpy as np

from bert_tf.data.tables import LabeledTexts
from bert_tf.utils.files import atomic_open, read_text
from bert_tf.utils.json_files import json_text

TRAIN_FILE, HELD_OUT_FILE, ANSWERS_FILE = "train.jsonl", "held_out.jsonl", "held_out.npy"


def assign(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Returns int [n]: the fold of each example. Folds have similar label counts.

    Args:
        labels: int [n].
        groups: int [n]; examples of one group share a fold, because a model trained on one would know the others'
            label.
        folds: number of folds, at least 2.
        seed: seed of the order.

    Raises:
        ValueError: there are fewer groups than folds.
    """
    names, first = np.unique(groups, return_index=True)
    if len(names) < folds:
        raise ValueError(
            f"`folds` must be at most {len(names)}, the number of different examples; got {folds}."
        )
    sizes = {name: size for name, size in zip(*np.unique(groups, return_counts=True), strict=True)}
    order = np.random.default_rng(seed).permutation(len(names))
    filled = np.zeros([labels.max() + 1, folds], int)
    fold_of = {}
    for i in order:
        label = labels[first[i]]
        # The fold with the fewest of this label; among those, the one with the fewest examples.
        fold = int(np.lexsort((np.arange(folds), filled.sum(0), filled[label]))[0])
        fold_of[names[i]] = fold
        filled[label, fold] += sizes[names[i]]
    return np.array([fold_of[group] for group in groups])


def write_fold(folder: pathlib.Path, examples: LabeledTexts, is_held_out: np.ndarray):
    """Writes the training and held-out examples of a fold for `train classifier`.

    Args:
        folder: directory of the fold, which is created.
        examples: all n examples.
        is_held_out: bool [n].
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in ((TRAIN_FILE, ~is_held_out), (HELD_OUT_FILE, is_held_out)):
        with atomic_open(folder / name) as file:
            for i in np.flatnonzero(chosen):
                row = dict(zip(text_columns(examples), texts_of(examples, i), strict=True)) | {
                    "label": examples.labels[i]
                }
                file.write(json_text(row, ensure_ascii=False) + "\n")


def text_columns(examples: LabeledTexts) -> tuple[str, ...]:
    """Returns the names of the texts of an example."""
    return ("text",) if examples.text_b is None else ("text_a", "text_b")


def texts_of(examples: LabeledTexts, i: int) -> tuple[str, ...]:
    """Returns the one or two texts of an example."""
    return (examples.text_a[i],) if examples.text_b is None else (examples.text_a[i], examples.text_b[i])


def answers_of(run: pathlib.Path, labels: list[str], count: int) -> np.ndarray:
    """Returns the predictions of a `train classifier` run, float64 [count, L] in the order of `labels`.

    A label that is not in the run's training data has probability 0.

    Raises:
        ValueError: the run does not have predictions for this many examples.
    """
    own = read_text(run / "labels.txt").split("\n")[:-1]
    values = np.loadtxt(run / "test_results.tsv", delimiter="\t", ndmin=2)
    if values.shape != (count, len(own)):
        raise ValueError(
            f"{run}/test_results.tsv must contain {count} x {len(own)} probabilities; got {list(values.shape)}. Remove "
            "the directory and run the same command again."
        )
    answers = np.zeros([count, len(labels)])
    answers[:, [labels.index(name) for name in own]] = values
    return answers
