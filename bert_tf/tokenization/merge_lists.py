"""The vocabulary and the merges of byte pair encoding as files have them: checked, before they are used."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.utils.files import brief


def tokens_by_id(vocab: Mapping[str, int], source: str | os.PathLike) -> list[str]:
    """Returns the tokens of a vocabulary, token -> id, in the order of their ids.

    Args:
        vocab: the vocabulary.
        source: the file it came from, for messages.

    Raises:
        ValueError: the ids are not 0, 1, 2 and so on.
    """
    tokens = sorted(vocab, key=vocab.get)
    wrong = next((i for i, token in enumerate(tokens) if vocab[token] != i), None)
    if wrong is not None:
        raise ValueError(
            f"{source}: ids must be 0, 1, 2 and so on without gaps; got {brief(vocab[tokens[wrong]])} for "
            f"{brief(tokens[wrong])} instead of {wrong}. The vocabulary may be incomplete; download it again."
        )
    return tokens


def checked_merge(merge: Any, vocab: Mapping[str, int], where: str) -> tuple[str, str]:
    """Returns the two tokens of a merge, "a b" or ["a", "b"].

    Args:
        merge: the merge.
        vocab: token -> id.
        where: file and line, for messages.

    Raises:
        ValueError: it is none, or the tokens or their concatenation are not in the vocabulary.
    """
    pair = tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) if isinstance(merge, list) else ()
    if len(pair) != 2 or not all(isinstance(token, str) and token for token in pair):
        raise ValueError(f"{where}: a merge must be two tokens separated by a space; got {brief(merge)}.")
    lacking = [token for token in (*pair, "".join(pair)) if token not in vocab]
    if lacking:
        raise ValueError(
            f"{where}: the two tokens of a merge and their concatenation must be in the vocabulary; got "
            f"{brief(merge)}, but {brief(lacking[0])} is missing; use both files from one model."
        )
    return pair
