"""Measures of attention heads: what each attends to, on average over texts (Clark et al. 2019, arXiv 1906.04341)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.interpret.attention import Attention, attention_of, kept_heads
from bert_tf.interpret.encoded_text import encode_texts
from bert_tf.utils.progress import Countdown

MEASURES = {
    "entropy": "in bits: a head of 3 bits is as undecided as one that looks at 8 tokens alike",
    "distance": "tokens from a token to where it looks, on average, special tokens left out",
    "first": "fraction of the attention on the first special token, such as [CLS]",
    "separators": "fraction on the special tokens that end texts, such as [SEP]",
    "itself": "fraction on the token itself",
    "previous": "fraction on the previous word",
    "next": "fraction on the next word",
}


def measure_heads(bert: Any, texts: Sequence[str] | Sequence[tuple[str, str]]) -> dict[str, np.ndarray]:
    """Returns float64 [L, A] for each of MEASURES: means over the word tokens of all texts; NaN for pruned heads.

    Args:
        bert: a model from `bert_tf.load`.
        texts: n of them, or pairs; each must fit into a sequence.

    Raises:
        ValueError: a text is longer than the model's positions; there are no words.
    """
    encoder, rows = encode_texts(bert, texts)
    kept, sums, count = kept_heads(encoder.config), None, 0
    with Countdown("Reading with all heads", "texts", len(rows)) as countdown:
        for row in rows:
            found, words = _sums(attention_of(encoder, row), len(bert.tokenizer.template.before))
            sums, count = found if sums is None else sums + found, count + words
            countdown.advance()
    if not count:
        raise ValueError(f"No words to measure attention on: the {len(texts)} texts contain no words.")
    values = dict(zip([*MEASURES, "among_words"], sums / count, strict=True))
    values["distance"] = values["distance"] / np.maximum(values.pop("among_words"), 1e-12)
    return {name: np.where(kept, each, np.nan) for name, each in values.items()}


def _sums(row: Attention, before: int) -> tuple[np.ndarray, int]:
    """Returns float64 [measures + 1, L, A], sums over the tokens of words, and their number."""
    word, special = row.word_of_token, row.of_text < 0
    own = np.flatnonzero(word >= 0)
    weights = row.weights[:, :, own].astype(np.float64)  # [L, A, own, S]
    far = np.abs(own[:, np.newaxis] - np.arange(len(row)))
    step = word - word[own, np.newaxis]
    near = (word >= 0) & (row.of_text == row.of_text[own, np.newaxis])
    ends = special & (np.arange(len(row)) >= before)
    among = ~special
    masks = [special & ~ends, ends, far == 0, near & (step == -1), near & (step == 1)]
    shares = [(weights * mask).sum((-2, -1)) for mask in masks]
    entropy = -(weights * np.log2(np.maximum(weights, 1e-30))).sum((-2, -1))
    distance = (weights * far * among).sum((-2, -1))
    return np.stack([entropy, distance, *shares, (weights * among).sum((-2, -1))]), len(own)
