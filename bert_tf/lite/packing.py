"""Joins the token ids of one or two texts into sequences, and splits long texts into windows, in plain Python.

The results are those of `tokenization/special_tokens.py` and `tokenization/windows.py`, which do the same in the graph
for many texts at a time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.window_sizes import kept_of_pair, window_starts


class PackedSequence(NamedTuple):
    """One sequence.

    Attributes:
        input_ids, segment_ids: of its tokens, without padding.
    """

    input_ids: list[int]
    segment_ids: list[int]


class Packer:
    """Packs texts with the special tokens of a model.

    Args:
        tables: tables of the tokenizer, whose template has the special tokens around the texts.
        max_seq_length: maximum tokens per sequence, including special ones.
    """

    def __init__(self, tables: TokenizerTables, max_seq_length: int):
        self._max_seq_length, self._template = max_seq_length, tables.template
        self.before, self.between, self.after = (
            list(map(tables.id_of, tokens))
            for tokens in (self._template.before, self._template.between, self._template.after)
        )

    def room(self, texts: int) -> int:
        """Returns the number of tokens that a sequence has for its text, or for two texts together."""
        return self._template.room_for(texts, self._max_seq_length)

    def __call__(self, first: Sequence[int], second: Sequence[int] | None = None) -> PackedSequence:
        """Packs one text or two, truncated: of two, the longer one loses its last token; on a tie, the second."""
        if second is None:
            ids = [*self.before, *first[: self.room(1)], *self.after]
            return PackedSequence(ids, [0] * len(ids))
        keep, keep_second = kept_of_pair(len(first), len(second), self.room(2))
        head = [*self.before, *first[:keep], *self.between]
        tail = [*second[:keep_second], *self.after]
        return PackedSequence(head + tail, [0] * len(head) + [self._template.second_segment] * len(tail))


def windows(length: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each window of a text's tokens; the last ends with the text, and an empty text has one."""
    for start in window_starts(length, room, stride):
        yield start, min(start + room, length)
