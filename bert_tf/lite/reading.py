"""Reads the texts of one request: from text to the outputs of a graph that computes one sequence at a time."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_tf.lite.packing import Packer
from bert_tf.lite.text_cut import cut_text
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.utils.token_counts import TokenCounts

# {input: array [1, S]} -> {output: array [1, ...]}
Compute = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


class TooLongError(ValueError):
    """Error for a sequence that is longer than the longest graph of the file."""


class Reading:
    """Tokenizes, packs and computes the texts of one request, and counts what the model does not read of them.

    Args:
        tokenizer: a `FastTokenizer`.
        packer: packer of the model.
        compute: the graph.
        longest: the most tokens that it computes.
        read_tokens: the most tokens that are read of a text, so that one far longer is cut; None for all.

    Attributes:
        counts: of the texts so far.
    """

    def __init__(
        self, tokenizer: FastTokenizer, packer: Packer, compute: Compute, longest: int, read_tokens: int | None = None
    ):
        self._tokenizer, self.packer, self._compute, self._longest = tokenizer, packer, compute, longest
        self._read_tokens = read_tokens
        self.counts = TokenCounts()

    def tokenize(self, text: str) -> Sequence[int]:
        """Returns the token ids of a text, or of its beginning if the rest is not read."""
        if self._read_tokens is not None:
            text = cut_text(text, self._read_tokens, self._tokenizer.tables.SPACES)
        ids = self._tokenizer.tokenize(text)
        self._note(ids)
        return ids

    def tokenize_with_offsets(self, text: str) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Returns the token ids of a text, and where each token starts and ends in it, in code points."""
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(text)
        self._note(ids)
        return ids, starts, ends

    def compute(self, first: Sequence[int], second: Sequence[int] | None = None) -> Mapping[str, np.ndarray]:
        """Returns the outputs {name: array [1, ...]} for one sequence: a text, or a pair of texts.

        Raises:
            TooLongError: it is longer than the longest graph.
        """
        self.count_sequence(first, second)
        ids, segments = self.packer(first, second)
        if len(ids) > self._longest:
            raise TooLongError(
                f"A text must have at most {self._longest} tokens for LiteRT's model next to a SavedModel; got "
                f"{len(ids)}. Shorten it, or use the SavedModel or an export with `export_for=litert`."
            )
        mask = [1] * len(ids)
        if not ids:  # a pooler needs a first token
            ids, segments, mask = [self._tokenizer.tables.pad_id], [0], [0]
        arrays = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
        return self._compute({name: np.array([values], np.int32) for name, values in arrays.items()})

    def count_sequence(self, first: Sequence[int], second: Sequence[int] | None = None):
        """Counts a sequence, whether or not it is computed."""
        tokens, unknown = len(first) + len(second or ()), self._unknown(first) + self._unknown(second or ())
        is_truncated = tokens > self.packer.room(1 if second is None else 2)
        self.counts = self.counts.plus((1, is_truncated, 0, 0, 2 * unknown > tokens))

    def _note(self, ids):
        self.counts = self.counts.plus((0, 0, len(ids), self._unknown(ids), 0))

    def _unknown(self, ids):
        return ids.count(self._tokenizer.tables.unk_id)
