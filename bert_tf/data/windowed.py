"""Long texts split into windows: examples of several sequences each (`long_text=window`)."""

import dataclasses
import hashlib
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.ragged import splits_of
from bert_tf.data.truncation import Truncation
from bert_tf.tokenization.special_tokens import first_of_each, pair_lengths, room_for
from bert_tf.tokenization.windows import find_windows

_CHUNK = 2_000  # texts tokenized at a time; they are long


@dataclasses.dataclass(frozen=True)
class Windowing:
    """The stride and maximum number of windows of a text.

    Attributes:
        stride: tokens from the start of one window to that of the next.
        max_windows: maximum number of windows per text; the rest is truncated.
    """

    stride: int
    max_windows: int = 32

    def check(self, room: int):
        """Raises ValueError if windows of `room` tokens would leave gaps."""
        if self.stride > room:
            raise ValueError(
                f"`doc_stride` must be at most {room}, the number of text tokens that fit into a sequence of "
                f"`max_seq_length`, so that windows overlap or touch; got {self.stride}; lower `doc_stride`, or "
                "omit it."
            )


def window_rows(tokenizer, ids: list, max_seq_length: int, windows: Windowing):
    """Splits texts, or the second texts of pairs, into windows, and encodes each, also in the graph.

        [CLS] a [SEP]                 [CLS] window [SEP]
        [CLS] a [SEP] b [SEP]         [CLS] a [SEP] window of b [SEP]          or as in the tokenizer's template

    The first sequence of a text or pair is the result of `BaseTokenizer.pack`, so texts that fit are encoded as without
    windows. For a pair, every window has as much of the first text as that sequence.

    Args:
        tokenizer: a `BaseTokenizer`.
        ids: one or two RaggedTensors int32 [n, (tokens)].
        max_seq_length: maximum length of a sequence.
        windows: the stride and number of windows.

    Returns:
        sequences as from `BaseTokenizer.pack`, [w, (length)]; int64 [w], the text of each sequence, ascending; int64
        [n], the number of truncated tokens at the end of each text.

    Raises:
        ValueError: there is no room for the special tokens, or the stride is longer than the room.
    """
    *first, last = ids  # a single text has no first
    room = room_for(len(ids), max_seq_length, tokenizer.template)
    windows.check(room)
    room, lengths = tf.cast(room, tf.int64), last.row_lengths()
    if first:
        keep = pair_lengths(first[0].row_lengths(), lengths, room)[0]
        first, room = [first_of_each(first[0], keep)], room - keep
    read = tf.minimum(lengths, room + (windows.max_windows - 1) * tf.minimum(tf.cast(windows.stride, tf.int64), room))
    cut = find_windows(read, room, windows.stride)
    packed = tokenizer.pack(*(tf.gather(a, cut.rows) for a in first), cut.take(last), max_seq_length=max_seq_length)
    return packed, cut.rows, lengths - read


def read_windows(tokenizer, texts, max_seq_length: int, windows: Windowing) -> dict[str, tf.Tensor]:
    """Encodes texts as inputs of a model with windows, in the graph.

    Args:
        tokenizer: a `BaseTokenizer`.
        texts: one or two tensors of strings [n].
        max_seq_length, windows: as in `window_rows`.

    Returns:
        "input_ids", "input_mask" and "segment_ids", int32 [n, N, S]; N and S are as large as these texts require.
        Missing windows of a text are all zeros.
    """
    packed, rows, _ = window_rows(tokenizer, [*map(tokenizer.tokenize, texts)], max_seq_length, windows)
    n = tf.size(texts[0], tf.int64)

    def of_text(values):
        return tf.RaggedTensor.from_value_rowids(values, rows, n, validate=False).to_tensor()

    return {name: of_text(values) for name, values in tokenizer.pad(packed).items()}


@dataclasses.dataclass
class Windowed:
    """Examples of one or more sequences, with the interface of `dataset.EncodedDataset`.

    Attributes:
        rows: the concatenated windows of all examples, without targets.
        splits: int64 [n + 1], offsets of each example's windows in `rows`.
        targets: {name: [n]}.
        origin, truncation: as in `dataset.EncodedDataset`.
    """

    rows: EncodedDataset
    splits: np.ndarray
    targets: dict
    origin: Any = None
    truncation: Truncation | None = None

    def __len__(self):
        return len(self.splits) - 1

    def fingerprint(self) -> str:
        """Returns a short hash of the training inputs."""
        digest = hashlib.sha256(self.rows.fingerprint().encode())
        for name, values in sorted({**self.targets, "windows": self.splits}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    @property
    def lengths(self):
        """Returns the number of tokens of each example in all of its windows, int64 [n]."""
        return self.rows.splits[self.splits[1:]] - self.rows.splits[self.splits[:-1]]

    @property
    def row_counts(self):
        """Returns the number of sequences of each example, int64 [n]."""
        return np.diff(self.splits)

    @property
    def longest_rows(self):
        """Returns the length of each example's longest sequence, int64 [n]."""
        return np.maximum.reduceat(self.rows.lengths, self.splits[:-1])

    def input_specs(self, batch_size: int) -> dict[str, tf.TensorSpec]:
        """Returns {name: TensorSpec} for the result of `inputs`."""
        return {name: tf.TensorSpec([batch_size, None, None], tf.int32) for name in self.rows.input_specs(batch_size)}

    def inputs(self, chosen: np.ndarray, width) -> dict[str, np.ndarray]:
        """Returns a batch's inputs, int32 [B, N, S]; missing windows of an example are all zeros.

        Args: as in `EncodedDataset.inputs`.
        """
        counts = np.where(chosen >= 0, np.diff(self.splits)[chosen], 1)
        number = np.arange(_round_up_size(counts.max()))
        there = number < counts[:, None]
        rows = np.where(there & (chosen >= 0)[:, None], self.splits[:-1][chosen][:, None] + number, -1)
        features = self.rows.inputs(rows.reshape(-1), width)
        return {name: values.reshape(*rows.shape, -1) * there[..., None] for name, values in features.items()}


def _round_up_size(count):
    """Returns the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: XLA compiles a program for every shape."""
    power = 1 << (int(count) - 1).bit_length()
    return power // 4 * 3 if count <= power // 4 * 3 else power


def tokenize_windows(
    tokenizer, texts: list, max_seq_length: int, windows: Windowing, targets: dict, path=""
) -> Windowed:
    """Tokenizes texts to examples of windows.

    Args:
        tokenizer: a `BaseTokenizer`.
        texts: one or two lists of n str.
        max_seq_length: maximum length of a sequence.
        windows: the stride and number of windows.
        targets: {name: [n]}.
        path: path of the file, for the log.

    Raises:
        ValueError: there is no room for the special tokens, or the stride is longer than the room.
    """
    parts = []
    for start in range(0, len(texts[0]), _CHUNK):
        ids = [tokenizer.tokenize(column[start : start + _CHUNK]) for column in texts]
        packed, rows, cut = window_rows(tokenizer, ids, max_seq_length, windows)
        counts = np.bincount(rows.numpy(), minlength=len(cut))
        parts.append((packed, packed["input_ids"].row_lengths().numpy(), counts, cut.numpy()))
    packed, lengths, counts, cut = zip(*parts, strict=True)
    flat = {name: np.concatenate([part[name].flat_values.numpy() for part in packed]) for name in packed[0]}
    lengths, counts, cut = map(np.concatenate, (lengths, counts, cut))
    logging.info(
        "%s: split %d examples into %d windows; %d examples have more than one window; %d exceed `max_windows=%d` and "
        "lost %d tokens.",
        *(path, len(counts), counts.sum(), (counts > 1).sum(), (cut > 0).sum(), windows.max_windows, cut.sum()),
    )
    needed = counts + -(-cut // windows.stride)
    truncation = Truncation("max_windows", windows.max_windows, needed, int(cut.sum()), int(lengths.sum() + cut.sum()))
    rows = EncodedDataset(flat, splits_of(lengths), {}, tokenizer.pad_id)
    return Windowed(rows, splits_of(counts), targets, truncation=truncation)
