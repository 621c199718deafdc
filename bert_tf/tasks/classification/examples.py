"""Labelled texts to tokenized examples."""

import numpy as np
from absl import logging

from bert_tf.data import tables, windowed
from bert_tf.data.cut import cut_of_rows
from bert_tf.data.dataset import Tokenized
from bert_tf.data.ragged import splits_of
from bert_tf.data.tables import Examples
from bert_tf.evaluation.error_reports.judged import Shown
from bert_tf.tasks.classification.problems import PROBLEMS

_CHUNK = 10_000  # examples tokenized at a time: few enough to keep memory small


def targets(examples: Examples, labels: list[str] | None, problem: str = "single_label") -> dict[str, np.ndarray]:
    """Returns what a model aims at, {} where the examples have no labels.

    Args:
        examples: n of them.
        labels: all L label names in the order of their ids; None for "regression".
        problem: "single_label": `label_ids` int32 [n]; "multi_label": `label_ids` int32 [n, L] of 0 and 1;
            "regression": `label_values` float32 [n].

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    if examples.labels is None:
        return {}
    kind = PROBLEMS[problem]
    if not kind.has_labels:
        return {kind.target: np.asarray(examples.labels, np.float32)}
    places = tables.check_labels(examples, labels)
    if not kind.has_several_labels:
        return {kind.target: np.asarray(places, np.int32)}
    ids = np.zeros([len(examples), len(labels)], np.int32)
    for row, marked in zip(ids, places, strict=True):
        row[marked] = 1
    return {kind.target: ids}


def shown(examples: Examples, lengths: np.ndarray) -> Shown:
    """Returns examples as a reader is to see them; lengths: int [n], in word pieces."""
    texts = {"text": examples.text_a}
    if examples.text_b is not None:
        texts = {"text_a": examples.text_a, "text_b": examples.text_b}
    return Shown(examples.path, examples.ids, examples.lines, texts, lengths)


def tokenize_examples(
    tokenizer,
    examples: Examples,
    max_seq_length: int,
    labels: list[str] | None = None,
    problem: str = "single_label",
    windows: windowed.Windowing | None = None,
) -> Tokenized | windowed.Windowed:
    """Turns texts into rows `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut as google-research/bert cuts them.

    Args:
        tokenizer: a `Tokenizer`.
        examples: the texts, and their labels where they have some.
        max_seq_length: longest row.
        labels, problem: as in `targets`.
        windows: how to read what is longer, with several rows for an example; None: its end is cut.

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    aims = targets(examples, labels, problem)  # first: it is where a file can be wrong
    texts = [text for text in (examples.text_a, examples.text_b) if text is not None]
    if windows is not None:
        return windowed.tokenize(tokenizer, texts, max_seq_length, windows, aims, examples.path)
    parts, wanted = [], []
    for start in range(0, len(examples), _CHUNK):
        part = slice(start, start + _CHUNK)
        pieces = [tokenizer.tokenize(text[part]) for text in texts]
        wanted.append(sum(each.row_lengths().numpy() for each in pieces) + tokenizer.template.special(len(texts)))
        parts.append(tokenizer.pack(*pieces, max_seq_length=max_seq_length))
    lengths = np.concatenate([part["input_ids"].row_lengths().numpy() for part in parts])
    flat = {n: np.concatenate([p[n].flat_values.numpy() for p in parts]) for n in ("input_ids", "segment_ids")}
    cut = cut_of_rows(np.concatenate(wanted), max_seq_length)
    logging.info(
        "%s: %d examples, %.1f pieces each; %d do not fit max_seq_length=%d and were cut.",
        *(examples.path, len(examples), lengths.mean(), len(cut.examples), max_seq_length),
    )
    return Tokenized(flat, splits_of(lengths), aims, tokenizer.pad_id, cut=cut)
