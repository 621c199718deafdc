"""Counts of the tokens that a model reads of a request's texts, by the tokenizer of the export in plain Python.

The graph counts tokens too, but those of a whole batch, and only together with everything else that it computes.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.request_rows import BYTES_PER_TOKEN
from bert_tf.tokenization.fast_tokenizer import FastTokenizer

_FIRST_CHARACTERS = 2  # per token of the limit: the beginning of a text that is tokenized first
_GROWTH = 4  # of the beginning, where it has not
_MOST_OF_A_WORD = 200  # tokens of the part of a word at the end of a beginning; the whole word may be one token


class ReadTokens(NamedTuple):
    """Counts of the sequences of a request, each of a text or a pair of texts.

    Attributes:
        sequences: their number.
        truncated: how many of them have more tokens than the model reads.
        tokens: number of tokens that it reads, without special tokens.
    """

    sequences: int
    truncated: int
    tokens: int


def count_read_tokens(version, columns: Mapping[str, Sequence[Any]], call: RequestContext) -> ReadTokens | None:
    """Returns the counts of a request's texts; None if the export has no settings of its tokenizer.

    Args:
        version: the model.
        columns: {input: n texts, or n lists of texts}, in the order in which the model reads them.
        call: the request, within whose limits the texts are.

    Raises:
        ServingError: the caller gave up.
    """
    tokenizer = version.model.read_tokenizer()
    if tokenizer is None:
        return None
    longest, added = version.model.sequences.text_tokens, version.model.sequences.added
    texts_read = len(columns) + (added > 0)  # a sentence may follow the text
    most = tokenizer.tables.template.room_for(texts_read, longest) - added if longest else None
    lengths = []
    for example in zip(*columns.values(), strict=True):
        call.check()
        texts = ([each] if isinstance(each, str) else each for each in example)
        each = [[_length(tokenizer, text, most) for text in of_input] for of_input in texts]
        lengths += map(sum, itertools.product(*each))
    if most is None:
        return ReadTokens(len(lengths), 0, sum(lengths))
    return ReadTokens(len(lengths), sum(length > most for length in lengths), sum(min(each, most) for each in lengths))


def require_tokenizer(version) -> FastTokenizer:
    """Returns the tokenizer of a model; raises ServingError if the export has no settings of it."""
    tokenizer = version.model.read_tokenizer()
    if tokenizer is None:
        raise invalid(f"The model {version.name} is served without settings of its tokenizer; export it again")
    return tokenizer


def check_texts(texts: Sequence[str], call: RequestContext):
    """Raises ServingError for texts beyond the limits of a request, where no model is run that checks them."""
    sizes = [len(text.encode("utf-8", "replace")) for text in texts]
    call.limits.check_rows(len(texts))
    call.limits.check_texts(sizes)
    call.limits.check_tokens(sum(sizes) // BYTES_PER_TOKEN)


def _length(tokenizer, text, most):
    """Returns the number of tokens of a text, or any number above `most`, if that is not None, where it has more.

    Only as much is tokenized as is needed to tell.
    """
    size = len(text) if most is None else _FIRST_CHARACTERS * (most + 1)
    while size < len(text):
        length = len(tokenizer.tokenize(text[:size]))
        if length > most + _MOST_OF_A_WORD:
            return length
        size *= _GROWTH
    return len(tokenizer.tokenize(text))
