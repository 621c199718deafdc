"""The cut of texts far beyond the tokens that are read."""

import tensorflow as tf

_LEAST_BYTES, _BYTES_OF_A_TOKEN = 2**16, 256


def cut(texts: tf.Tensor, tokens: int, spaces: str = "") -> tf.Tensor:
    """Cuts strings to 64 KiB, or 256 bytes per token if that is more, which is enough for `tokens` tokens.

    Tokenizing a megabyte takes a hundred megabytes, even if most tokens are dropped. If a text has fewer tokens in
    its first 64 KiB, such as one of words with tens of thousands of letters, the rest is not read.

    Args:
        texts: strings of any shape.
        tokens: number of tokens that are read per text.
        spaces: `BaseTokenizer.SPACES`, which are collapsed into one space before the cut; this changes offsets.
    """
    if spaces:
        texts = tf.strings.regex_replace(texts, spaces, " ")
    return tf.strings.substr(texts, 0, max(_LEAST_BYTES, _BYTES_OF_A_TOKEN * tokens))
