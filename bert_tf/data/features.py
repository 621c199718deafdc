"""The schema: every tensor that passes from disk to model, under google-research/bert's name, declared once."""

import dataclasses
from typing import NamedTuple

import numpy as np

# === Ragged ===
# Rows of unequal lengths, end to end in one array.


_LONG = 32  # values of a row on average, from which on rows are copied one by one


class Ragged(NamedTuple):
    """n rows of one array.

        flat    7 7 7 4 4 9      splits   0 3 5 6       three rows: 7 7 7, 4 4 and 9

    Attributes:
        flat: [all values], any dtype.
        splits: int64 [n + 1], where each row begins and ends.
    """

    flat: np.ndarray
    splits: np.ndarray

    @classmethod
    def of_lengths(cls, flat, lengths) -> "Ragged":
        """Returns the rows of `flat` that have these lengths, int [n]."""
        return cls(flat, splits_of(lengths))

    @property
    def lengths(self):
        """int64 [n]."""
        return np.diff(self.splits)

    def take(self, rows) -> "Ragged":
        """Returns the rows (int [k]) in the order asked for."""
        starts, lengths = self.splits[:-1][rows], self.lengths[rows]
        selection = Ragged.of_lengths(np.empty(int(lengths.sum()), self.flat.dtype), lengths)
        if len(selection.flat) < _LONG * len(lengths):
            np.take(self.flat, ranges(starts, lengths), out=selection.flat, mode="clip")
            return selection
        begin, end = starts.tolist(), (starts + lengths).tolist()  # an index for each value would cost more than a loop
        for row, a, b in zip(selection.rows(), begin, end, strict=True):
            row[:] = self.flat[a:b]
        return selection

    def rows(self) -> list:
        """Returns a view of each row."""
        return [self.flat[a:b] for a, b in zip(self.splits[:-1].tolist(), self.splits[1:].tolist(), strict=True)]


def splits_of(lengths):
    """Returns int64 [n + 1], the running sum of lengths (int [n]) from 0."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def ranges(starts, lengths):
    """Returns int64 [sum of lengths]: starts[0], starts[0] + 1, ... for lengths[0] values, then from starts[1] on."""
    first = splits_of(lengths)[:-1]
    return np.repeat(np.asarray(starts, np.int64) - first, lengths) + np.arange(int(np.sum(lengths)))


def concatenate(parts) -> Ragged:
    """Returns the rows of all `parts` (Ragged, one at least), one after the other."""
    return Ragged.of_lengths(np.concatenate([p.flat for p in parts]), np.concatenate([p.lengths for p in parts]))


NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # no row of bytes


# === Features ===


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named tensor of a batch.

    Attributes:
        name: the same in the record, the batch, the Keras input, the signature and the request.
        dtype: "int32" or "float32", in the batch.
        per: what it has a value for in each row, which is its shape in the batch: "token" [B, S],
            "prediction" [B, M], "sentence" [B, K] or "example" [B].
        padding: what fills a row after its last token; None: the vocabulary's [PAD].
    """

    name: str
    dtype: str = "int32"
    per: str = "token"
    padding: int | None = 0

    def padding_of(self, pad_id: int) -> int:
        """Returns what fills a row, with a vocabulary whose [PAD] is `pad_id`."""
        return pad_id if self.padding is None else self.padding


FEATURES = {
    f.name: f
    for f in (
        Feature("input_ids", padding=None),  # word pieces, [CLS] first, [SEP] after each text
        Feature("input_mask"),  # 1 for a token, 0 for padding
        Feature("segment_ids"),  # 0 for the first text with its [CLS] and [SEP]; the second's as its family has it: 1
        Feature("context_mask"),  # question answering's, beside the model's inputs: 1 for a piece of the context
        Feature("sentence_ids"),  # packed rows only: 1, 2, ... for each sentence of the row, 0 for padding
        Feature("masked_lm_positions", per="prediction"),  # ascending places of the pieces to predict; 0 for padding
        Feature("masked_lm_ids", per="prediction"),  # the pieces that were there; 0 for padding
        Feature("masked_lm_weights", dtype="float32", per="prediction"),  # 1 for a prediction, 0 for padding
        Feature("unmasked_ids", padding=None),  # replaced tokens: input_ids as they were before they were masked
        Feature("sampling_draws", dtype="float32", per="prediction"),  # replaced tokens: from 0 to 1, which one it is
        Feature("next_sentence_labels", per="sentence"),  # 1 for a random or swapped second text, 0 for the true next
        Feature("next_sentence_positions", per="sentence"),  # packed rows only: the place of each example's [CLS]
        Feature("next_sentence_weights", dtype="float32", per="sentence"),  # packed rows only: 0 where no example is
        Feature("label_ids", per="example"),  # index into the sorted labels
        Feature("tag_ids", padding=-1),  # index into the tags on a word's first piece, -1 on all other pieces
        Feature("label_values", dtype="float32", per="example"),  # the number that regression aims at
        Feature("start_positions", per="example"),  # place of the answer's first piece in the row; 0: not in this row
        Feature("end_positions", per="example"),  # place of its last piece
        Feature("is_real_example", dtype="float32", per="example"),  # 0 for rows that only fill up a batch
    )
}

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def keras_inputs(names=ENCODER_INPUTS, windows=False):
    """Returns {name: keras.Input} of unknown batch size and length, for a functional model.

    With `windows` an example has several rows: what is per token is [B, N, S], any number N of them.
    """
    import keras

    shapes = {n: () if FEATURES[n].per == "example" else (None,) * (1 + windows) for n in names}
    return {n: keras.Input(shapes[n], dtype=FEATURES[n].dtype, name=n) for n in names}
