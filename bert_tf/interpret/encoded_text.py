"""Encodes texts one at a time, and maps tokens and words back to the texts."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.loading import load
from bert_tf.interpret.words import Word, words_of
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import named_inputs
from bert_tf.tokenization.special_tokens import add_special_tokens
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils.text_inputs import text_list
from bert_tf.utils.token_counts import TokenCountLog

Texts = str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[str, Any]

_INPUTS = ("input_ids", "segment_ids", "input_mask")


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedText:
    """A text or text pair as the model reads it: S tokens, including special ones, without padding.

    Attributes:
        texts: the text, or both of a pair.
        tokens: S tokens, as spelled in the vocabulary.
        ids, segments: int32 [S], `input_ids` and `segment_ids`.
        starts, ends: int32 [S], the offsets of each token in its text, half-open, in code points; 0, 0 for special
            ones.
        of_text: int32 [S], the index of each token's text: 0, or 1 for the second of a pair; -1 for special ones.
        words: the W `Word`s of the texts.
        word_of_token: int32 [S], the index of each token's word among `words`; -1 for a token without a word.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    ids: np.ndarray
    segments: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    of_text: np.ndarray
    words: list[Word]
    word_of_token: np.ndarray

    def __len__(self) -> int:
        """S."""
        return len(self.tokens)

    def of_words(self, values: np.ndarray) -> np.ndarray:
        """Returns the sums over the tokens of each word, [..., W], of values [..., S]."""
        sums = np.zeros([*values.shape[:-1], len(self.words)], values.dtype)
        there = np.flatnonzero(self.word_of_token >= 0)
        np.add.at(sums, (..., self.word_of_token[there]), values[..., there])
        return sums

    @property
    def features(self) -> dict[str, tf.Tensor]:
        """The model's inputs, int32 [1, S] each."""
        ids = {"input_ids": self.ids, "input_mask": np.ones_like(self.ids), "segment_ids": self.segments}
        return {name: tf.constant(values[np.newaxis]) for name, values in ids.items()}


def encode_texts(
    model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False
) -> tuple[Any, list[EncodedText]]:
    """Returns the encoder of a model, and the encoded texts.

    Args:
        model: a model from `bert_tf.load`, or its path; or a pair of an `Encoder` and its tokenizer; or an `Encoder`
            alone.
        texts: a text, n of them, or n pairs (a, b). With an encoder alone: its inputs, a dict of `input_ids` and
            perhaps `input_mask` and `segment_ids`, int [n, S] each; the tokens are then the ids, and there are no
            words.
        pairs: the second texts of n pairs; `texts` are the first ones.
        masks: whether the tokenizer's mask in a text, such as "[MASK]", becomes the mask token; otherwise, it is plain
            text.

    Raises:
        ValueError: `texts` are invalid, or one is longer than the model's positions.
    """
    encoder, tokenizer = parts_of(load_if_path(model))
    if tokenizer is None:
        rows = _rows_of_ids(encoder.config, texts, pairs)
    else:
        rows = _encode_rows(tokenizer, _split_columns(texts, pairs), encoder.config, masks)
    for n, row in enumerate(rows):
        if len(row) > encoder.config.max_length:
            raise ValueError(
                f"Each text must have at most {encoder.config.max_length} tokens, including special ones: the model "
                f"has no more positions. Text {n + 1} of {len(rows)} has {len(row)}. Shorten it."
            )
    return encoder, rows


def load_if_path(model: Any) -> Any:
    """Returns a model for `encode_texts`, loaded with `bert_tf.load` if it is a path.

    Raises:
        ValueError: it is not a model, or there is none at the path.
    """
    if isinstance(model, str | os.PathLike):
        return load(model)
    parts_of(model)
    return model


def parts_of(model: Any) -> tuple[Any, Any]:
    """Returns the encoder of a model for `encode_texts`, and its tokenizer, which is None for an encoder
    alone.

    Raises:
        ValueError: it is not a model.
    """
    if isinstance(model, tuple) and len(model) == 2:
        return model
    if hasattr(model, "encoder") and hasattr(model, "tokenizer"):
        return model.encoder, model.tokenizer
    if isinstance(model, Encoder) or hasattr(model, "head_mask"):
        return model, None
    raise ValueError(
        "`model` must be a model from `bert_tf.load`, its path, an `Encoder`, or a pair of an `Encoder` and its "
        f"tokenizer; got an object of class {type(model).__name__}. Pass the path of the model."
    )


def name_of_model(model: Any) -> str:
    """Returns the name of a model for messages."""
    return (model.path or "an unsaved model") if hasattr(model, "encoder") else "an encoder alone"


def _rows_of_ids(config, features, pairs):
    """Returns the encoded texts for inputs of the caller."""
    if not isinstance(features, Mapping) or "input_ids" not in features or pairs is not None:
        raise ValueError(
            "For an encoder without a tokenizer, `texts` must be a dict with `input_ids`; got "
            f"{type(features).__name__}. Pass the model from `bert_tf.load`, or (encoder, tokenizer)."
        )
    given = {name: np.asarray(values) for name, values in named_inputs(features, _INPUTS).items()}
    ids = given["input_ids"]
    segments, masks = given.get("segment_ids", np.zeros_like(ids)), given.get("input_mask", np.ones_like(ids)) > 0
    rows = []
    for row, segment, mask in zip(ids, segments, masks, strict=True):
        none = np.zeros(mask.sum(), np.int32)
        own = row[mask], segment[mask]
        rows.append(EncodedText((), list(map(str, own[0].tolist())), *own, none, none, none - 1, [], none - 1))
    return rows


def _split_columns(texts, pairs):
    """Returns one or two lists of texts."""
    texts, pairs = ([each] if isinstance(each, str) else each for each in (texts, pairs))
    first = text_list(texts, pairs=pairs is None)
    if pairs is None:
        paired = first and isinstance(first[0], tuple)
        return [list(column) for column in zip(*first, strict=True)] if paired else [first]
    second = text_list(pairs, "pairs")
    if len(first) != len(second):
        raise ValueError(
            f"`pairs` must have a second text for each of `texts`; got {len(second)} for {len(first)}."
        )
    return [first, second]


def _encode_rows(tokenizer, columns, config, masks):
    tokenizer.template.check(len(columns))
    if not columns[0]:
        return []
    tokenizer = TokenCounter(tokenizer)
    parts = [_tokenize(tokenizer, column, masks) for column in columns]  # ids, starts, ends of each column
    of_text = [ids.with_flat_values(tf.fill(tf.shape(ids.flat_values), n)) for n, (ids, *_) in enumerate(parts)]
    longest = int(sum(tf.reduce_max(ids.row_lengths()) for ids, *_ in parts)) + tokenizer.template.special(2)

    def pack_numbers(numbers, special=0):
        both = numbers if len(numbers) == 2 else (*numbers, None)
        return add_special_tokens(*both, longest, tokenizer.template, lambda token: special)["input_ids"]

    packed = tokenizer.pack(*(ids for ids, *_ in parts), max_seq_length=longest)
    TokenCountLog("The texts").add(tokenizer.counts().numpy())
    numbers = [packed["input_ids"], packed["segment_ids"]]
    numbers += [pack_numbers([each[k] for each in parts]) for k in (1, 2)] + [pack_numbers(of_text, -1)]
    rows, vocab = [], tokenizer.vocab
    for n, texts in enumerate(zip(*columns, strict=True)):
        ids, *others = (each[n].numpy() for each in numbers)
        rows.append(
            EncodedText(texts, [vocab[i] for i in ids.tolist()], ids, *others, *_find_words(texts, *others[1:]))
        )
    return rows


def _find_words(texts, starts, ends, of_text):
    words, word_of_token = [], np.full(len(starts), -1, np.int32)
    for n, text in enumerate(texts):
        own = np.flatnonzero(of_text == n)
        found, of_token = words_of(text, starts[own], ends[own], n)
        word_of_token[own] = np.where(of_token >= 0, of_token + len(words), -1)
        words += found
    return words, word_of_token


def _tokenize(tokenizer, texts, masks):
    """Returns ids, starts and ends of the tokens of texts, RaggedTensors of int32 [n, (tokens)]."""
    if not masks or tokenizer.mask_id is None or not any(tokenizer.mask in text for text in texts):
        return tokenizer.tokenize_with_offsets(texts)
    return tokenizer.tokenize_matching(texts, tokenizer.matcher_with_special([tokenizer.mask]))
