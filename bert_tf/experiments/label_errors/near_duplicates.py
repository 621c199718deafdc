"""Texts that are nearly the same: found by MinHash (Broder 1997), and then compared. No TensorFlow."""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

LEAST = 0.8  # of the characters' windows that two near-duplicates share, by Jaccard
_WINDOW = 5  # characters
_BANDS, _ROWS = 16, 4  # texts that share LEAST meet in a band with a probability of 0.9998
_CHUNK = 5_000  # texts hashed at a time
_PRIME = np.uint64(0x100000001B3)
_SPACE = re.compile(r"[\W_]+")


def groups(texts: Sequence[str], least: float = LEAST) -> np.ndarray:
    """Returns int [n]: the same number for texts that are nearly the same, the place of the first of them.

    Letter case, punctuation, white space and forms of a character do not count. Where a is near b, and b near c, all
    three are one group.

    Args:
        texts: n of them.
        least: the share of windows of five characters that two texts must have in common, of those of either.
    """
    plain = [_plain(text) for text in texts]
    first = {}
    for i, text in enumerate(plain):
        first.setdefault(text, i)
    places = np.array(list(first.values()), int)  # of each text that is different from those before
    leader = np.arange(len(places))
    windows = [_windows(text) for text in first]
    for a, b in _candidates(windows):
        a, b = _find(leader, a), _find(leader, b)
        if a != b and _jaccard(windows[a], windows[b]) >= least:
            leader[max(a, b)] = min(a, b)
    number = {text: i for i, text in enumerate(first)}
    return np.array([places[_find(leader, number[text])] for text in plain], int)


def _plain(text):
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text


def _windows(text):
    """Returns the different windows of a text as numbers, uint64 ascending; a short text is one window."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    width = max(1, min(_WINDOW, len(points)))
    hashed = np.zeros(max(1, len(points) - width + 1), np.uint64)
    for k in range(width if len(points) else 0):
        hashed = hashed * _PRIME + points[k : k + len(hashed)]
    return np.unique(_mixed(hashed))


def _mixed(x):
    """A number with its bits mixed (the end of SplitMix64), uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _candidates(windows) -> Iterator[tuple[int, int]]:
    """Yields pairs of texts that share a band of least hashes; of many that share one, each and the one before it."""
    signatures = [_signature(windows[start : start + _CHUNK]) for start in range(0, len(windows), _CHUNK)]
    signatures = np.concatenate(signatures) if signatures else np.zeros([0, _BANDS * _ROWS], np.uint64)
    for band in range(_BANDS):
        keys = np.zeros(len(signatures), np.uint64)
        for row in range(_ROWS):
            keys = _mixed(keys * _PRIME + signatures[:, band * _ROWS + row])
        order = np.argsort(keys, kind="stable")
        for a, b in itertools.pairwise(order.tolist()):
            if keys[a] == keys[b]:
                yield a, b


def _signature(windows):
    """Returns uint64 [len(windows), hashes]: the least of all windows' values under each of several hashes."""
    flat = np.concatenate(windows)
    starts = np.cumsum([0, *map(len, windows)])[:-1]
    seeds = _mixed(np.arange(1, _BANDS * _ROWS + 1, dtype=np.uint64))
    return np.stack([np.minimum.reduceat(_mixed(flat ^ seed), starts) for seed in seeds], 1)


def _jaccard(a, b):
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)


def _find(leader, i):
    while leader[i] != i:
        leader[i] = leader[leader[i]]
        i = leader[i]
    return i
