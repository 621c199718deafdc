"""Encodes texts into the token sequences of task models, in the graph and from files."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.ragged import splits_of
from bert_tf.tokenization.base_tokenizer import BaseTokenizer


def encode_served_texts(
    tokenizer: BaseTokenizer, texts: Sequence[tf.Tensor], max_seq_length: int
) -> dict[str, tf.Tensor]:
    """Encodes one sequence per text or pair, like `BaseTokenizer.pack`: `ServableTask.preprocess` of most tasks.

    Args: as `ServableTask.preprocess`.

    Returns:
        The tensors of `tokenizer.pad`, int32 [n, S]; S is that of the longest sequence, and 1 if there is no text at
        all, because a pooler needs a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return pad_sequences(tokenizer, packed)


def pack_sequences(
    tokenizer: BaseTokenizer, tokens: Iterable[Sequence[tf.RaggedTensor]], max_seq_length: int
) -> tuple[EncodedDataset, np.ndarray]:
    """Packs texts into sequences, truncated like `BaseTokenizer.pack`; also returns the lengths without truncation.

    Args:
        tokenizer: a `BaseTokenizer`.
        tokens: the tokens of one or two texts each, int32 [chunk, (length)], in chunks small enough for memory.
        max_seq_length: maximum sequence length.

    Returns:
        The w sequences, without targets; their lengths, int64 [w], including special tokens.
    """
    flat, lengths, needed = {"input_ids": [], "segment_ids": []}, [], []
    for part in tokens:
        needed.append(sum(each.row_lengths().numpy() for each in part) + tokenizer.template.special(len(part)))
        packed = tokenizer.pack(*part, max_seq_length=max_seq_length)
        lengths.append(packed["input_ids"].row_lengths().numpy())
        for name, values in flat.items():
            values.append(packed[name].flat_values.numpy())
    flat = {name: np.concatenate(values) for name, values in flat.items()}
    return EncodedDataset(flat, splits_of(np.concatenate(lengths)), {}, tokenizer.pad_id), np.concatenate(needed)


def pad_sequences(tokenizer, packed) -> dict[str, tf.Tensor]:
    """Pads sequences like `tokenizer.pad`, int32 [w, S], with S at least 1."""
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] unchanged, or with one column of zeros if S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])
