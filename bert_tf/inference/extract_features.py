"""Feature extraction: an encoder's features for every row of a table, for `cli/extract_features.py`."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf.checkpoints.feature_extractor import Extractor, TokenFeatures
from bert_tf.checkpoints.loading import load
from bert_tf.data.ragged import Ragged, concatenate_features
from bert_tf.inference.batch_prediction.answer_parts import CountedAnswers
from bert_tf.inference.sentence_encoder import hash_model

TOKEN, WORD = UNITS = ("token", "word")
POOLED = "embeddings"
_PAIR = re.compile(r"(.*) \|\|\| (.*)")  # google-research/bert's extract_features.py
# What separates words: white space as in `tokenization`; \s also matches control characters, which are not text.
_WORD = re.compile("[^ \t\r\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_DECIMALS = 6


@dataclasses.dataclass(frozen=True)
class FeatureMaker:
    """Creates the function from rows of texts to their features; a `table_job.Maker`.

    A text "a ||| b" is a pair, and so is a row of two texts.

        pooling                  embeddings
        json_lines               linex_index, features: [{token, layers: [{index, values}]}], as google-research/bert
        neither                  tokens, starts, ends, of_text, features

    Attributes:
        model: a checkpoint, as in `bert_tf.load`.
        layers: one of `names.LAYERS`, or indices.
        pooling: one of `names.POOLINGS`; None for features of every token or word.
        unit: "token", a token; or "word": the mean of its tokens, without special tokens.
        max_seq_length: longest sequence in tokens; longer texts are truncated.
        json_lines: return values for JSON Lines, with numbers rounded to six decimals.
        config_file, vocab_file, do_lower_case: as in `bert_tf.load`.
    """

    model: str
    layers: str | tuple[int, ...] = (-1, -2, -3, -4)
    pooling: str | None = None
    unit: str = TOKEN
    max_seq_length: int = 128
    json_lines: bool = False
    config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None

    verb: ClassVar[str] = "Extracting"

    def __post_init__(self):
        if self.unit not in UNITS:
            raise ValueError(f"`unit` must be one of {', '.join(UNITS)}; got {self.unit!r}.")
        if self.pooling and self.unit != TOKEN:
            raise ValueError(
                f"`pooling={self.pooling}` and `unit={self.unit}` cannot be combined: pooling makes one vector per "
                "text. Remove one of the two."
            )

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that affects the results, as JSON values."""
        values = dataclasses.asdict(self)
        files = ("model", "config_file", "vocab_file")
        values |= {name: values[name] and os.path.realpath(values[name]) for name in files}
        values |= hash_model(self.model, self.config_file, self.vocab_file, self.do_lower_case)
        return values if isinstance(self.layers, str) else {**values, "layers": list(self.layers)}

    def __call__(self) -> Callable:
        bert = load(self.model, self.do_lower_case, self.config_file, self.vocab_file)
        options = {"pooling": self.pooling or "mean", "max_seq_length": self.max_seq_length}
        extractor = Extractor(bert.encoder, bert.tokenizer, self.layers, **options)

        def answer(rows):
            texts = list(zip(*rows.texts, strict=True))
            if len(rows.texts) == 1:
                texts = [match.groups() if (match := _PAIR.fullmatch(text.strip())) else text for (text,) in texts]
            if self.pooling:
                return {POOLED: np.stack(_apply_by_kind(extractor, texts))}
            found = _apply_by_kind(lambda alike: list(extractor.tokens(alike)), texts)
            if self.unit == WORD:
                found = [average_words(text, each) for text, each in zip(texts, found, strict=True)]
            return self._lines(rows.ids, found) if self.json_lines else _make_columns(found)

        return CountedAnswers(answer, extractor.token_counts)

    def _lines(self, ids, found):
        names = [self.layers] if isinstance(self.layers, str) else list(self.layers)
        numbers = [int(name) if name.isdecimal() else name for name in ids]
        return {"linex_index": numbers, "features": [_format_tokens(each, names) for each in found]}


def average_words(text: str | tuple[str, str], features: TokenFeatures) -> TokenFeatures:
    """Returns the features of a text's words that have at least one token: the means over their tokens.

    Args:
        text: a text, or a pair.
        features: features of its tokens.

    Returns:
        The same for words, separated by whitespace: `tokens` are the words as in the text.
    """
    positions, words, group = [np.zeros([0, 3], np.int32)], [], np.full(len(features.tokens), -1)
    for n, each in enumerate([text] if isinstance(text, str) else text):
        own = np.flatnonzero((features.of_text == n) & (features.starts < features.ends))
        spans = np.array([match.span() for match in _WORD.finditer(each)], np.int32).reshape(-1, 2)
        word, of_token = np.unique(np.searchsorted(spans[:, 0], features.starts[own], "right") - 1, return_inverse=True)
        group[own] = len(words) + of_token
        words += [each[a:b] for a, b in spans[word].tolist()]
        positions.append(np.insert(spans[word], 2, n, axis=1))
    values = np.zeros([len(words), features.values.shape[1]], np.float32)
    np.add.at(values, group[group >= 0], features.values[group >= 0])
    values /= np.bincount(group[group >= 0], minlength=len(words))[:, np.newaxis]
    return TokenFeatures(words, values, *np.concatenate(positions).T)


def _apply_by_kind(function: Callable[[list], Sequence], texts: list) -> list:
    """Applies a function to texts and to pairs separately, and returns the results in order."""
    found = [None] * len(texts)
    for kind in (str, tuple):
        indices = [n for n, text in enumerate(texts) if isinstance(text, kind)]
        for n, value in zip(indices, function([texts[n] for n in indices]) if indices else [], strict=True):
            found[n] = value
    return found


def _format_tokens(features, names):
    """Returns the tokens or words of a text in google-research/bert's format, with an entry per layer."""
    shape = (len(features.tokens), len(names), features.values.shape[1] // len(names))
    values = features.values.astype(np.float64).reshape(shape)
    return [
        {"token": token, "layers": [{"index": n, "values": v} for n, v in zip(names, layers, strict=True)]}
        for token, layers in zip(features.tokens, np.round(values, _DECIMALS).tolist(), strict=True)
    ]


def _make_columns(found):
    def column(values):
        return concatenate_features([Ragged.of_lengths(each, [len(each)]) for each in values])

    return {
        "tokens": column([np.array(each.tokens, dtype=str) for each in found]),
        **{name: column([getattr(each, name) for each in found]) for name in ("starts", "ends", "of_text")},
        "features": column([each.values for each in found]),
    }
