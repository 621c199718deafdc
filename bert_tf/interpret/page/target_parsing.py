"""Targets of an attribution, whose score a page explains, parsed from a command line."""

import re
from typing import Any

from bert_tf.interpret.encoded_text import EncodedText
from bert_tf.interpret.targets import SpanHead, TokenHead, head_of

_SPAN = re.compile(r"(\d+):(\d+)")
_WORD = re.compile(r"(\d+)(?::(.+))?")


def target_of(model: Any, row: EncodedText, text: Any) -> Any:
    """Returns what `inspect.attributions` takes as a target.

    Args:
        model: with a head.
        row: row of the text.
        text: a label, by its name or number; for a tagger the number of a word from 0, "3", or that and a tag,
            "3:B-PER"; for an answer its text, or its start and end in the context, "10:14". Non-strings are returned
            unchanged.

    Raises:
        ValueError: the model has no head, or the text is nothing of that; what is of the right form but does not exist
            is left to `inspect.attributions`.
    """
    if not isinstance(text, str):
        return text
    head = head_of(model)
    if isinstance(head, SpanHead):
        return _parse_span(row.texts[-1], text)
    if isinstance(head, TokenHead):
        if not (match := _WORD.fullmatch(text)):
            raise ValueError(
                f"`target` must be the index of a word from 0, such as 3, or with a tag, 3:B-PER; got {text!r}."
            )
        return (int(match[1]), match[2])
    return int(text) if text.isascii() and text.isdecimal() and text not in head.labels else text


def _parse_span(context, text):
    if text and text in context:
        start = context.index(text)
        return start, start + len(text)
    if match := _SPAN.fullmatch(text):
        return int(match[1]), int(match[2])
    raise ValueError(
        f"`target` must be a part of the context, or its start and end in characters, such as 10:14; got {text[:60]!r}."
    )
