"""Sentences that a tiny model can learn to tag, as column files."""

import json

import numpy as np

from bert_tf.evaluation.entities import parse_entities
from bert_tf.tasks.tagging.columns import text_of
from tests import tiny


def sentences(n, seed=0):
    """Returns n sentences of (word, tag): good words are QUAL, two bad ones in a row one FLAW, all others outside."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        words = []
        for _ in range(rng.integers(2, 6)):
            words += [(str(word), "O") for word in rng.choice(tiny.FILL, rng.integers(1, 3))]
            if rng.random() < 0.5:
                words.append((str(rng.choice(tiny.GOOD)), "B-QUAL"))
            elif rng.random() < 0.7:
                words += [(str(rng.choice(tiny.BAD)), "B-FLAW"), (str(rng.choice(tiny.BAD)), "I-FLAW")]
        made.append(words)
    return made


def write_columns(path, rows):
    """Writes CoNLL's columns with one between word and tag that means nothing, and a line that begins a document."""
    blocks = ["\n".join(f"{word} x {tag}" for word, tag in sentence) for sentence in rows]
    path.write_text("-DOCSTART- -X- O\n\n" + "\n\n".join(blocks) + "\n", encoding="utf-8")
    return path


def write_spans(path, rows):
    """Writes texts with character spans, as annotation tools export them."""
    lines = []
    for sentence in rows:
        text, spans = text_of([word for word, _ in sentence])
        chunks = parse_entities([tag for _, tag in sentence])
        found = [[spans[each.first][0], spans[each.last][1], each.type] for each in chunks]
        lines.append(json.dumps({"text": text, "label": found}))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_jsonl(path, rows):
    lines = [json.dumps({"tokens": [w for w, _ in each], "tags": [t for _, t in each]}) for each in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
