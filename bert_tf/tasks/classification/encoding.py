"""Labeled texts to tokenized examples."""

import dataclasses

import numpy as np
from absl import logging

from bert_tf.data import tables, windowed
from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.tables import LabeledTexts
from bert_tf.data.truncation import count_truncated
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.sequences import pack_sequences

_CHUNK = 10_000  # examples tokenized at a time: few enough to keep memory small


def targets(examples: LabeledTexts, labels: list[str] | None, problem: str = "single_label") -> dict[str, np.ndarray]:
    """Returns the targets of examples for training, or {} if they have no labels.

    Args:
        examples: n examples.
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
    label_ids = tables.check_labels(examples, labels)
    if not kind.has_several_labels:
        return {kind.target: np.asarray(label_ids, np.int32)}
    several = np.zeros([len(examples), len(labels)], np.int32)
    for row, own in zip(several, label_ids, strict=True):
        row[own] = 1
    return {kind.target: several}


def tokenize_examples(
    tokenizer,
    examples: LabeledTexts,
    max_seq_length: int,
    labels: list[str] | None = None,
    problem: str = "single_label",
    windows: windowed.Windowing | None = None,
) -> EncodedDataset | windowed.Windowed:
    """Tokenizes texts into `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in google-research/bert.

    Args:
        tokenizer: a `BaseTokenizer`.
        examples: the texts, and their labels if they have any.
        max_seq_length: maximum sequence length.
        labels, problem: as in `targets`.
        windows: how to split longer texts into several sequences. If None, they are truncated.

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    found = targets(examples, labels, problem)  # first, because this is where a file may be invalid
    texts = [*examples.texts.values()]
    if windows is not None:
        return windowed.tokenize_windows(tokenizer, texts, max_seq_length, windows, found, examples.path)
    starts = range(0, len(examples), _CHUNK)
    tokens = ([tokenizer.tokenize(text[start : start + _CHUNK]) for text in texts] for start in starts)
    sequences, needed = pack_sequences(tokenizer, tokens, max_seq_length)
    cut = count_truncated(needed, max_seq_length)
    logging.info(
        "%s: %d examples, %.1f tokens each; %d exceed max_seq_length=%d and were truncated.",
        *(examples.path, len(examples), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return dataclasses.replace(sequences, targets=found, truncation=cut)
