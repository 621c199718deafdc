"""The entities in texts, from the tags that a model predicts for their tokens."""

from collections.abc import Sequence

import numpy as np

from bert_tf.lite.packing import windows
from bert_tf.lite.reading import Reading
from bert_tf.lite.single_sequences import Task
from bert_tf.tokenization.word_boundaries import inner_span, word_spans

_DTYPES = {"entity": object, "type": object, "start": np.int32, "end": np.int32, "score": np.float32}


def find_entities(reading: Reading, task: Task, columns: tuple[Sequence[str]]) -> dict[str, np.ndarray]:
    """Returns `entity` and `type` (bytes), `start`, `end`, `score` [n, E], and `entity_count` [n], of n texts.

    E is the largest number of entities in a text; positions after a text's last one hold b"" and 0.
    """
    found = [_entities(text, _tagged_words(reading, task, text)) for text in columns[0]]
    counts = np.array(list(map(len, found)), np.int32)
    served = {}
    for name, dtype in _DTYPES.items():
        served[name] = np.full([len(found), counts.max()], b"" if dtype is object else 0, dtype)
        for row, each in zip(served[name], found, strict=True):
            row[: len(each)] = [entity[name] for entity in each]
    return served | {"entity_count": counts}


def _tagged_words(reading, task, text):
    """Returns (start, end, token, tag, probability) of each word that has a token."""
    ids, starts, ends = reading.tokenize_with_offsets(text)
    best = _best_tags(reading, task, ids)
    solid = [i for i in range(len(ids)) if starts[i] < ends[i]]  # a token of a space alone is of no word
    words, k = [], 0
    spans = word_spans(text, task.get("word_boundaries", "whitespace"))
    for number, (start, end) in enumerate(spans):
        until = spans[number + 1][0] if number + 1 < len(spans) else len(text)
        while k < len(solid) and starts[solid[k]] < start:
            k += 1
        if k < len(solid) and starts[solid[k]] < until:
            token = solid[k]
        elif k and ends[solid[k - 1]] > start:  # it has none of its own: the one that it is in
            token = solid[k - 1]
        else:
            continue
        words.append((start, end, token, *best[token]))
    return words


def _best_tags(reading, task, ids):
    """Returns the (tag, probability) of each token, in the window where it has most tokens around it."""
    room, before = reading.packer.room(1), len(reading.packer.before)
    best, around = [None] * len(ids), [-1] * len(ids)
    for begin, end in windows(len(ids), room, task["doc_stride"]):
        outputs = reading.compute(ids[begin:end])
        tags, chances = outputs["tag"][0], outputs["probability"][0]
        for i in range(begin, end):
            fewer = min(i - begin, end - 1 - i)
            if fewer > around[i]:
                around[i], best[i] = fewer, (tags[before + i - begin].decode(), chances[before + i - begin])
    return best


def _entities(text, words):
    """Returns the entities of a text, {name: value} each.

    An entity begins at B- or S-, and at I- or E- after a word outside, of another type, or with E- or S-. Words of one
    token are of one entity.
    """
    found, before, last_token = [], ("O", ""), None
    for start, end, token, tag, chance in words:
        prefix, _, kind = tag.partition("-")
        if prefix != "O":
            begins = prefix in "BS" or before[0] in "OES" or before[1] != kind
            if begins and token != last_token:
                found.append({"type": kind, "spans": [], "chances": []})
            found[-1]["spans"].append(inner_span(text, start, end))
            found[-1]["chances"].append(chance)
        before, last_token = (prefix, kind), token
    return [_entity(text, **each) for each in found]


def _entity(text, type, spans, chances):
    start, end = spans[0][0], spans[-1][1]
    score = np.mean(chances, dtype=np.float32)
    return {"entity": text[start:end].encode(), "type": type.encode(), "start": start, "end": end, "score": score}
