"""Texts that are nearly the same."""

import numpy as np

from bert_tf.data import near_duplicates
from bert_tf.data.near_duplicates import group_near_duplicates

TEXTS = [
    "The film is a warm story of people and music.",
    "the film is a warm   story of people and music",  # case, space, punctuation
    "The film is a warm story of people and music!!",
    "Nothing of the kind was ever seen in these parts of the country.",
    "Nothing of the kind was ever seen in these parts of that country.",  # a word
    "Nothing else is like it.",
    "Gut",
    "gut.",
    "",
    "?!",
    "!?",
]


def test_near_duplicates_share_a_group():
    assert group_near_duplicates(TEXTS).tolist() == [0, 0, 0, 3, 3, 5, 6, 6, 8, 9, 10]


def test_how_near_is_near_enough():
    assert group_near_duplicates(TEXTS[3:5], least=0.95).tolist() == [0, 1]
    assert group_near_duplicates([]).tolist() == []


def test_parts_and_order_change_nothing_that_shows(monkeypatch):
    rng = np.random.default_rng(0)
    words = np.array(["".join(chr(97 + n) for n in rng.integers(0, 26, 6)) for _ in range(500)])
    texts = [" ".join(rng.choice(words, 12)) for _ in range(200)]
    texts += [f"{text} indeed" for text in texts[::4]]
    whole = group_near_duplicates(texts)
    assert np.flatnonzero(whole != np.arange(250)).tolist() == list(range(200, 250))
    assert whole[200:].tolist() == list(range(0, 200, 4))
    monkeypatch.setattr(near_duplicates, "_CHUNK", 7)
    assert group_near_duplicates(texts).tolist() == whole.tolist()
