"""Texts without what lies far behind the tokens that are read of them."""

import tensorflow as tf

_LEAST_BYTES, _BYTES_OF_A_TOKEN = 2**16, 256


def cut(texts: tf.Tensor, tokens: int, spaces: str = "") -> tf.Tensor:
    """Returns strings of which at least 64 KiB and 256 bytes a token are left, in which `tokens` tokens are found.

    To tokenize a megabyte takes a hundred megabytes, whatever is kept of it. Where a text has fewer tokens than that in
    its first 64 KiB, such as one of words with tens of thousands of letters, what lies behind them is not read.

    Args:
        texts: strings of any shape.
        tokens: how many are read of each.
        spaces: a `BaseTokenizer.SPACES`, what becomes one space before anything is cut off; offsets change with it.
    """
    if spaces:
        texts = tf.strings.regex_replace(texts, spaces, " ")
    return tf.strings.substr(texts, 0, max(_LEAST_BYTES, _BYTES_OF_A_TOKEN * tokens))
