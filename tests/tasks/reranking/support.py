"""Queries whose relevant documents a tiny model can learn to find."""

import json

import numpy as np

from tests import tiny


def queries(n, seed=0, counts=(2, 6)):
    """Returns n (query, positives, negatives): positives have a good word, negatives a bad one each.

    Args:
        counts: how many negatives a query has: from the first number to below the second.
    """
    rng, made = np.random.default_rng(seed), []

    def words(word):
        around = rng.choice(tiny.FILL, rng.integers(1, 5)).tolist()
        around.insert(rng.integers(len(around) + 1), word)
        return " ".join(around)

    for _ in range(n):
        positives = [words(str(rng.choice(tiny.GOOD))) for _ in range(rng.integers(1, 3))]
        negatives = [words(str(rng.choice(tiny.BAD))) for _ in range(rng.integers(*counts))]
        made.append((" ".join(rng.choice(tiny.FILL, rng.integers(1, 4))), positives, negatives))
    return made


def write_jsonl(path, rows, keys=("query", "positives", "negatives")):
    lines = [json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
