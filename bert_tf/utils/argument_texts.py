"""Reads the texts of a command that takes them as arguments, from a file, or on standard input."""

import sys
from collections.abc import Sequence

from bert_tf.utils.files import decode_argument, read_text


def read_argument_texts(arguments: Sequence[str], input_file: str | None, advice: str) -> list[str]:
    """Returns the non-empty texts from the arguments, or else from the lines of `input_file` or standard input.

    Args:
        arguments: of the command line.
        input_file: a file with one text per line; may be gzipped. If None, standard input, without arguments.
        advice: the end of the message if there are no texts, on what to pass.

    Raises:
        ValueError: there are both arguments and a file, or there are no texts.
    """
    if arguments and input_file:
        raise ValueError("Pass texts either as arguments or with `input_file`, not both.")
    if arguments:
        texts = [*map(decode_argument, arguments)]
    else:
        text = read_text(input_file) if input_file else sys.stdin.buffer.read().decode("utf-8", "ignore")
        texts = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not texts:
        raise ValueError(f"Nothing to do: pass at least one text {advice}")
    return texts
