"""What most tasks do with the texts to answer: one row for each, read from its first token on."""

import tensorflow as tf


def single_rows(tokenizer, texts, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Returns one row for each text or pair, cut as `Tokenizer.pack` cuts; what `Served.read` is for most tasks.

    Args: as `Served.read`.

    Returns:
        what `tokenizer.pad` returns, int32 [n, S]; S is the longest row's, and 1 where there is no text at all, since a
        pooler needs a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return padded(tokenizer, packed)


def padded(tokenizer, packed) -> dict[str, tf.Tensor]:
    """Returns what `tokenizer.pad` makes of rows of any length, int32 [w, S], with S at least 1."""
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] as they are, or with one column of zeros where S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])
