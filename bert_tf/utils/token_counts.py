"""Counts of what a model does not read of its texts: truncated texts and unknown tokens. They are logged and served."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from bert_tf.utils.names import percent

LARGE_SHARE = 0.1  # of truncated texts or unknown tokens, above which a warning is logged


class TokenCounts(NamedTuple):
    """Counts of some texts; they can be added up with `plus`.

    Attributes:
        texts: number of sequences, each of a text or a pair of texts.
        truncated: how many of them exceed the maximum length.
        tokens: number of tokens of the whole texts, without special tokens.
        unknown: how many of them are not in the vocabulary.
    """

    texts: int = 0
    truncated: int = 0
    tokens: int = 0
    unknown: int = 0

    def plus(self, counts: Sequence[int]) -> "TokenCounts":
        """Returns the sum with other counts, in the order of the attributes."""
        return TokenCounts(*(int(one) + int(other) for one, other in zip(self, counts, strict=True)))

    @property
    def truncated_share(self) -> float:
        """Share of truncated texts; 0 without texts."""
        return self.truncated / max(1, self.texts)

    @property
    def unknown_share(self) -> float:
        """Share of unknown tokens; 0 without tokens."""
        return self.unknown / max(1, self.tokens)

    def __str__(self):
        return (
            f"{self.truncated:,} of {self.texts:,} texts ({percent(self.truncated_share)}) are truncated; "
            f"{self.unknown:,} of {self.tokens:,} tokens ({percent(self.unknown_share)}) are unknown"
        )


class TokenCountLog:
    """Adds up counts, and warns once of many truncated texts and once of many unknown tokens. Thread-safe.

    Args:
        name: of the model, at the beginning of the warnings.
        max_seq_length: its maximum length in tokens; None: unknown.
        fewest: number of texts below which nothing is warned of.
    """

    def __init__(self, name: str, max_seq_length: int | None = None, fewest: int = 1):
        self._name, self._limit, self._fewest = name, max_seq_length, fewest
        self._lock, self._warned = threading.Lock(), set()
        self._total = self._taken = TokenCounts()

    @property
    def total(self) -> TokenCounts:
        """The sum of all counts."""
        return self._total

    def take(self) -> TokenCounts:
        """Returns the sum of the counts since the last call."""
        with self._lock:
            taken, self._taken = self._taken, self._total
            return TokenCounts(*(all_ - before for all_, before in zip(self._total, taken, strict=True)))

    def add(self, counts: Sequence[int]):
        """Adds the counts of some texts, in the order of `TokenCounts`."""
        with self._lock:
            self._total = total = self._total.plus(counts)
            if total.texts < self._fewest:
                return
            shares = {"truncated": total.truncated_share, "unknown": total.unknown_share}
            large = {what for what, share in shares.items() if share > LARGE_SHARE} - self._warned
            self._warned |= large
        if "truncated" in large:
            limit = f" at {self._limit} tokens" if self._limit else ""
            logging.warning(
                "%s: %s of %s texts (%s) are truncated%s; the model ignores the rest. Use a larger maximum "
                "length, or shorter texts.",
                *(self._name, f"{total.truncated:,}", f"{total.texts:,}", percent(total.truncated_share), limit),
            )
        if "unknown" in large:
            logging.warning(
                "%s: %s of %s tokens (%s) are not in the vocabulary, so results are unreliable. Check the language of "
                "the texts, their encoding, and `do_lower_case`.",
                *(self._name, f"{total.unknown:,}", f"{total.tokens:,}", percent(total.unknown_share)),
            )

    def __getstate__(self):
        return {"name": self._name, "max_seq_length": self._limit, "fewest": self._fewest}

    def __setstate__(self, state):
        self.__init__(**state)
