"""Labels that mean nothing, and what is right without looking at a vector: what a probe is to be held against.

A probe may be right because the vectors know the label, or because it learned by heart which word has which. So each
word (as it is written) is given a label of its own at random, whatever its text says of it; a probe that learns these
as well has learned words by heart (Hewitt and Liang 2019, arXiv 1909.03368).
"""

import collections
from collections.abc import Sequence

import numpy as np


def control_labels(train_types: Sequence[str], types: Sequence[str], labels: np.ndarray, seed: int) -> np.ndarray:
    """Returns int32 [n]: the control's label of each of n words.

    Args:
        train_types: the words of training.
        types: the n words.
        labels: int [..], the labels of training: the control's are drawn by their shares, so that both tasks have
            about the same.
        seed: of the draw; a word has the same label wherever it stands.
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
    """Returns which shares of labels are right without a vector.

    Args:
        train_types, train: words and labels of training.
        types, labels: those that are to be told.

    Returns:
        majority: by the commonest label; word: by the commonest label of the word in training, or of all words, where
        it did not occur; seen: the share of words that did occur, more than which a control cannot be right but by
        luck.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, label in zip(train_types, train.tolist(), strict=True):
        counts[word][label] += 1
    commonest = int(np.bincount(train).argmax())
    told = [counts[word].most_common(1)[0][0] if word in counts else commonest for word in types]
    return {
        "majority": float(np.mean(labels == commonest)),
        "word": float(np.mean(labels == np.array(told))),
        "seen": float(np.mean([word in counts for word in types])),
    }
