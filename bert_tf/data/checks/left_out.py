"""Rows that could not be examples: without a text, or without a label that can be read."""

import functools
from collections.abc import Iterator

from bert_tf.data.checks.findings import Finding, places_of, share
from bert_tf.data.checks.samples import Sample
from bert_tf.data.rows import excerpt, where
from bert_tf.data.tables import is_empty
from bert_tf.utils.counts import word_for


def left_out(sample: Sample) -> Iterator[Finding]:
    """Yields the rows with which training does not start."""
    yield from _of(sample, "text", sample.bad_texts, ("missing_texts", "no text"), "text_column")
    yield from _of(sample, "label", sample.bad_labels, ("empty_labels", "an empty label"), "label_column")


def _of(sample, noun, bad, nothing, parameter):
    """Yields of texts or labels those that are not there, and those that are something else; bad: line -> value."""
    (kind, what), empty = nothing, {line: value for line, value in bad.items() if is_empty(value)}
    if empty:
        row = word_for(len(empty), "it in, or take the row out", "them in, or take the rows out")
        yield _finding(sample, kind, empty, what, f"fill {row}")
    if other := {line: value for line, value in bad.items() if line not in empty}:
        what = f"a {noun} that cannot be read, such as {excerpt(next(iter(other.values())))}"
        them = word_for(len(other), "it", "them")
        yield _finding(sample, f"bad_{noun}s", other, what, f"correct {them}, or check `{parameter}`")


def _finding(sample, kind, lines, what, remedy):
    count = len(sample) + len(sample.bad_labels) + len(sample.bad_texts)
    rows = share(len(lines), count, "rows", ("has", "have"))
    places = places_of(sample.path, functools.partial(where, sample.path), lines)
    return Finding(kind, sample.path, len(lines), f"{rows} {what}, with which training does not start", remedy, places)
