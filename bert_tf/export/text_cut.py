"""Texts without what lies far behind the tokens that are read of them."""

import tensorflow as tf

_LEAST_BYTES, _BYTES_OF_A_TOKEN = 2**16, 256


def cut(texts: tf.Tensor, tokens: int) -> tf.Tensor:
    """Returns strings of which at least 64 KiB and 256 bytes a token are left, in which `tokens` tokens are found.

    To tokenize a megabyte takes a hundred megabytes, whatever is kept of it. Where a text has fewer tokens in its first
    64 KiB, such as one that begins with as many spaces, what lies behind them is not read.
    """
    return tf.strings.substr(texts, 0, max(_LEAST_BYTES, _BYTES_OF_A_TOKEN * tokens))
