"""Groups of nearly the same texts: found with MinHash (Broder 1997), and then compared."""

import itertools
import re
import unicodedata
from collections.abc import Iterator, MutableSequence, Sequence

import numpy as np

LEAST = 0.8  # Jaccard similarity of the character windows of near-duplicates
_WINDOW = 5  # characters
_BANDS, _ROWS = 16, 4  # texts that share LEAST meet in a band with a probability of 0.9998
_CHUNK = 5_000  # texts hashed at a time
_PRIME = np.uint64(0x100000001B3)
_SPACE = re.compile(r"[\W_]+")


def group_near_duplicates(texts: Sequence[str], least: float = LEAST) -> np.ndarray:
    """Returns int [n]: for near-duplicates the same number, the index of the first of them.

    Letter case, punctuation, whitespace and Unicode variants of a character are ignored. If a is near b, and b near c,
    all three are one group.

    Args:
        texts: n of them.
        least: the minimum Jaccard similarity of the texts' windows of five characters.
    """
    normalized = (_SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() for text in texts)
    plain = [short or text for short, text in zip(normalized, texts, strict=True)]
    first = {}
    for i, text in enumerate(plain):
        first.setdefault(text, i)
    indices = np.array(list(first.values()), int)  # of each text that differs from all earlier ones
    leader = np.arange(len(indices))
    windows = [_hash_windows(text) for text in first]
    for a, b in _find_candidates(windows):
        a, b = find_leader(leader, a), find_leader(leader, b)
        if a != b and _jaccard(windows[a], windows[b]) >= least:
            leader[max(a, b)] = min(a, b)
    number = {text: i for i, text in enumerate(first)}
    return np.array([indices[find_leader(leader, number[text])] for text in plain], int)


def find_leader(leader: MutableSequence[int], i: int) -> int:
    """Returns the first member of the group of `i`; `leader` points each member to itself or to an earlier one."""
    while leader[i] != i:
        leader[i] = leader[leader[i]]
        i = leader[i]
    return i


def _hash_windows(text):
    """Returns the distinct windows of a text as numbers, uint64 ascending; a short text is one window."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    width = max(1, min(_WINDOW, len(points)))
    hashed = np.zeros(max(1, len(points) - width + 1), np.uint64)
    for k in range(width if len(points) else 0):
        hashed = hashed * _PRIME + points[k : k + len(hashed)]
    return np.unique(_mix_bits(hashed))


def _mix_bits(x):
    """Mixes the bits of a number (the end of SplitMix64), uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _find_candidates(windows) -> Iterator[tuple[int, int]]:
    """Yields pairs of texts that share a band of minimum hashes; if many share one, consecutive pairs."""
    signatures = [_compute_signatures(windows[start : start + _CHUNK]) for start in range(0, len(windows), _CHUNK)]
    signatures = np.concatenate(signatures) if signatures else np.zeros([0, _BANDS * _ROWS], np.uint64)
    for band in range(_BANDS):
        keys = np.zeros(len(signatures), np.uint64)
        for row in range(_ROWS):
            keys = _mix_bits(keys * _PRIME + signatures[:, band * _ROWS + row])
        order = np.argsort(keys, kind="stable")
        for a, b in itertools.pairwise(order.tolist()):
            if keys[a] == keys[b]:
                yield a, b


def _compute_signatures(windows):
    """Returns uint64 [len(windows), hashes]: the minimum over all windows under each of several hashes."""
    flat = np.concatenate(windows)
    starts = np.cumsum([0, *map(len, windows)])[:-1]
    seeds = _mix_bits(np.arange(1, _BANDS * _ROWS + 1, dtype=np.uint64))
    return np.stack([np.minimum.reduceat(_mix_bits(flat ^ seed), starts) for seed in seeds], 1)


def _jaccard(a, b):
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)
