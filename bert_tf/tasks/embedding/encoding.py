"""Encodes matching texts as the sequences of one example."""

from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.data.ragged import splits_of
from bert_tf.data.truncation import count_truncated
from bert_tf.data.windowed import Windowed
from bert_tf.tasks.sequences import pack_sequences

_CHUNK = 10_000  # texts tokenized at a time: few enough to keep memory small


def encode_text_groups(
    tokenizer, groups: Sequence[Sequence[str]], max_seq_length: int, targets: Mapping[str, np.ndarray], path: str
) -> Windowed:
    """Encodes n examples with a sequence for each of their texts: [CLS] text [SEP].

    Args:
        tokenizer: a `BaseTokenizer`.
        groups: the texts of each example, at least one.
        max_seq_length: maximum sequence length; longer texts are truncated.
        targets: {name: [n]}.
        path: path of the file, for the log.
    """
    ordered, counts = [text for group in groups for text in group], np.array(list(map(len, groups)))
    starts = range(0, len(ordered), _CHUNK)
    tokens = ([tokenizer.tokenize(ordered[start : start + _CHUNK])] for start in starts)
    sequences, needed = pack_sequences(tokenizer, tokens, max_seq_length)
    cut = count_truncated(needed, max_seq_length, np.repeat(np.arange(len(groups)), counts), len(groups))
    logging.info(
        "%s: %d examples of %.3g texts, %.1f tokens per text; %d exceed max_seq_length=%d and were truncated.",
        *(path, len(groups), counts.mean(), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return Windowed(sequences, splits_of(counts), dict(targets), truncation=cut)
