"""Texts to the sequences of tokens that the models of tasks read, in the graph and from files."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import Tokenized
from bert_tf.data.features import splits_of


def encode_served_texts(tokenizer, texts, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Returns one sequence for each text or pair, cut as `Tokenizer.pack` cuts: `ServableTask.read` of most tasks.

    Args: as `ServableTask.read`.

    Returns:
        what `tokenizer.pad` returns, int32 [n, S]; S is the longest sequence's, and 1 where there is no text at
        all, since a pooler needs a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return pad_sequences(tokenizer, packed)


def pack_sequences(
    tokenizer, tokens: Iterable[Sequence[tf.RaggedTensor]], max_seq_length: int
) -> tuple[Tokenized, np.ndarray]:
    """Returns w sequences as the model reads them, cut as `Tokenizer.pack` cuts, and how long they would be uncut.

    Args:
        tokenizer: a `Tokenizer`.
        tokens: the tokens of one or two texts each, int32 [part, (length)], in parts small enough for memory.
        max_seq_length: of the longest.

    Returns:
        the sequences, without targets; int64 [w], special tokens counted in.
    """
    flat, lengths, needed = {"input_ids": [], "segment_ids": []}, [], []
    for part in tokens:
        needed.append(sum(each.row_lengths().numpy() for each in part) + tokenizer.template.special(len(part)))
        packed = tokenizer.pack(*part, max_seq_length=max_seq_length)
        lengths.append(packed["input_ids"].row_lengths().numpy())
        for name, values in flat.items():
            values.append(packed[name].flat_values.numpy())
    flat = {name: np.concatenate(values) for name, values in flat.items()}
    return Tokenized(flat, splits_of(np.concatenate(lengths)), {}, tokenizer.pad_id), np.concatenate(needed)


def pad_sequences(tokenizer, packed) -> dict[str, tf.Tensor]:
    """Returns what `tokenizer.pad` makes of sequences of any length, int32 [w, S], with S at least 1."""
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] as they are, or with one column of zeros where S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])
