"""Questions that a tiny model can learn to answer, as SWAG's tables and as JSON lines."""

import csv
import json

import numpy as np

from tests import tiny


def questions(n, seed=0, counts=(4, 5)):
    """Returns n (context, choices, label): the right choice has a good word, the others a bad one each.

    Args:
        counts: how many choices a question has: from the first number to below the second.
    """
    rng, made = np.random.default_rng(seed), []

    def words(word):
        around = rng.choice(tiny.FILL, rng.integers(1, 5)).tolist()
        around.insert(rng.integers(len(around) + 1), word)
        return " ".join(around)

    for _ in range(n):
        count = int(rng.integers(*counts))
        label = int(rng.integers(count))
        choices = [words(str(rng.choice(tiny.GOOD if i == label else tiny.BAD))) for i in range(count)]
        made.append((" ".join(rng.choice(tiny.FILL, rng.integers(1, 4))), choices, label))
    return made


def write_jsonl(path, rows, **more):
    """Writes questions; `more` are further keys, the same in each line."""
    keys = ("context", "choices", "label")
    lines = [json.dumps(dict(zip(keys, row, strict=True)) | more, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_swag(path, rows, with_labels=True):
    """Writes questions of four choices as SWAG's CSV; the second sentence of each begins with its first word."""
    header = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
    header += [f"ending{i}" for i in range(4)] + ["label"] * with_labels
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for i, (context, choices, label) in enumerate(rows):
            start = [i, f"video_{i}", 7 * i, f"{context} the", context, "the", "gold"]
            writer.writerow([*start, *choices, *[label] * with_labels])
    return path
