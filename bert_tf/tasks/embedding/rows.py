"""Texts that belong together, laid out as the rows of one example."""

from collections.abc import Mapping

import numpy as np
from absl import logging

from bert_tf.data.cut import cut_of_rows
from bert_tf.data.dataset import Tokenized
from bert_tf.data.ragged import splits_of
from bert_tf.data.windowed import Windowed

_CHUNK = 10_000  # texts tokenized at a time: few enough to keep memory small


def group_rows(
    tokenizer, texts: tuple[list[str], ...], max_seq_length: int, targets: Mapping[str, np.ndarray], path: str
) -> Windowed:
    """Returns n examples of k rows each: [CLS] text [SEP].

    Args:
        tokenizer: a `Tokenizer`.
        texts: k lists of n texts.
        max_seq_length: longest row; what is longer loses its end.
        targets: {name: [n]}.
        path: of the file, for the log.
    """
    ordered, parts, wanted = [text for group in zip(*texts, strict=True) for text in group], [], []
    for start in range(0, len(ordered), _CHUNK):
        ids = tokenizer.tokenize(ordered[start : start + _CHUNK])
        wanted.append(ids.row_lengths().numpy() + tokenizer.template.special(1))
        parts.append(tokenizer.pack(ids, max_seq_length=max_seq_length))
    lengths = np.concatenate([part["input_ids"].row_lengths().numpy() for part in parts])
    flat = {n: np.concatenate([p[n].flat_values.numpy() for p in parts]) for n in ("input_ids", "segment_ids")}
    cut = cut_of_rows(np.concatenate(wanted), max_seq_length, np.arange(len(ordered)) // len(texts), len(texts[0]))
    logging.info(
        "%s: %d examples of %d texts, %.1f pieces a text; %d do not fit max_seq_length=%d and were cut.",
        *(path, len(texts[0]), len(texts), lengths.mean(), len(cut.examples), max_seq_length),
    )
    rows = Tokenized(flat, splits_of(lengths), {}, tokenizer.pad_id)
    return Windowed(rows, np.arange(0, len(ordered) + 1, len(texts)), dict(targets), cut=cut)
