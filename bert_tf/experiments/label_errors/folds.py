"""A training file in k parts, each of which models trained on the others answer: which part a row is in, and files."""

import pathlib

import numpy as np

from bert_tf.data.tables import Examples
from bert_tf.utils.files import atomic_open, read_text
from bert_tf.utils.json_files import json_text

TRAIN_FILE, HELD_OUT_FILE, ANSWERS_FILE = "train.jsonl", "held_out.jsonl", "held_out.npy"


def assign(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Returns int [n]: the fold of each example. Folds hold about as many of each label.

    Args:
        labels: int [n].
        groups: int [n]; those of one group share a fold: a model that has seen one would know the others' answer.
        folds: how many, at least 2.
        seed: of the order.

    Raises:
        ValueError: there are fewer groups than folds.
    """
    names, first = np.unique(groups, return_index=True)
    if len(names) < folds:
        raise ValueError(
            f"`folds` must be at most the number of different examples, {len(names)}. Received: {folds}; lower it."
        )
    sizes = {name: size for name, size in zip(*np.unique(groups, return_counts=True), strict=True)}
    order = np.random.default_rng(seed).permutation(len(names))
    filled = np.zeros([labels.max() + 1, folds], int)
    fold_of = {}
    for i in order:
        label = labels[first[i]]
        # The fold with the fewest of this label, of those the one with the fewest of all.
        fold = int(np.lexsort((np.arange(folds), filled.sum(0), filled[label]))[0])
        fold_of[names[i]] = fold
        filled[label, fold] += sizes[names[i]]
    return np.array([fold_of[group] for group in groups])


def write_fold(folder: pathlib.Path, examples: Examples, is_held_out: np.ndarray):
    """Writes what is trained on and what is held out, as run_classifier reads them.

    Args:
        folder: of the fold; it is made.
        examples: all n.
        is_held_out: bool [n].
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in ((TRAIN_FILE, ~is_held_out), (HELD_OUT_FILE, is_held_out)):
        with atomic_open(folder / name) as file:
            for i in np.flatnonzero(chosen):
                row = dict(zip(columns(examples), texts_of(examples, i), strict=True)) | {"label": examples.labels[i]}
                file.write(json_text(row, ensure_ascii=False) + "\n")


def columns(examples: Examples) -> tuple[str, ...]:
    """Returns the names of the texts of an example."""
    return ("text",) if examples.text_b is None else ("text_a", "text_b")


def texts_of(examples: Examples, i: int) -> tuple[str, ...]:
    """Returns the one or two texts of an example."""
    return (examples.text_a[i],) if examples.text_b is None else (examples.text_a[i], examples.text_b[i])


def answers_of(run: pathlib.Path, labels: list[str], count: int) -> np.ndarray:
    """Returns what a run of run_classifier answered, float64 [count, L] in the order of `labels`.

    A label that the run's training did not see has probability 0.

    Raises:
        ValueError: the run has not answered for so many examples.
    """
    own = read_text(run / "labels.txt").split("\n")[:-1]
    values = np.loadtxt(run / "test_results.tsv", delimiter="\t", ndmin=2)
    if values.shape != (count, len(own)):
        raise ValueError(
            f"{run}/test_results.tsv must hold {count} x {len(own)} probabilities. Received {list(values.shape)}; "
            "remove the folder, and the same command makes it again."
        )
    answers = np.zeros([count, len(labels)])
    answers[:, [labels.index(name) for name in own]] = values
    return answers
