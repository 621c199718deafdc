"""Control labels, and the accuracy without any features: the baselines of a probe.

A probe may be right because the features encode the label, or because it memorized the label of each word. So each
word (as written) gets a random label, regardless of its text; a probe that learns these as well has memorized words
(Hewitt and Liang 2019, arXiv 1909.03368).
"""

import collections
from collections.abc import Sequence

import numpy as np


def control_labels(train_types: Sequence[str], types: Sequence[str], labels: np.ndarray, seed: int) -> np.ndarray:
    """Returns int32 [n]: the control's label of each of n words.

    Args:
        train_types: the words of training.
        types: the n words.
        labels: int [..], the labels of training: the control's are drawn from their distribution, so that both tasks
            have about the same.
        seed: random seed of the draw; a word has the same label everywhere.
    """
    shares = np.bincount(labels) / len(labels)
    known = sorted(set(train_types))
    drawn = dict(zip(known, _draw(shares, len(known), seed), strict=True))
    new = sorted(set(types) - drawn.keys())
    drawn |= dict(zip(new, _draw(shares, len(new), seed + 1), strict=True))
    return np.array([drawn[word] for word in types], np.int32)


def _draw(shares, count, seed):
    return np.random.default_rng(seed).choice(len(shares), count, p=shares).tolist()


def baselines(train_types: Sequence[str], train: np.ndarray, types: Sequence[str], labels: np.ndarray) -> dict:
    """Returns the accuracies that are possible without features.

    Args:
        train_types, train: words and labels of training.
        types, labels: those to predict.

    Returns:
        majority: of the most frequent label; word: of the most frequent label of the word in training, or of all words
        if it did not occur; seen: the fraction of words that did occur, an upper bound for the control except by
        chance.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, label in zip(train_types, train.tolist(), strict=True):
        counts[word][label] += 1
    majority = int(np.bincount(train).argmax())
    guesses = [counts[word].most_common(1)[0][0] if word in counts else majority for word in types]
    return {
        "majority": float(np.mean(labels == majority)),
        "word": float(np.mean(labels == np.array(guesses))),
        "seen": float(np.mean([word in counts for word in types])),
    }
