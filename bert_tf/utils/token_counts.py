"""Counts of what a model does not read of its texts: truncated texts and unknown tokens. They are logged and served."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

from bert_tf.utils.counts import percent, word_for

LARGE_SHARE = 0.1  # of truncated texts or unknown tokens, above which a warning is logged
# Of texts that consist mostly of unknown tokens, from which on a warning is logged. A model does not read such a text
# at all, so fewer of them matter than of truncated ones; but among many texts, some are always just an emoji or a list
# of part numbers. Of a file, which can be corrected, each of them is warned of.
LARGE_SHARE_OF_TEXTS = 0.01
_OF_UNKNOWN = (
    "Results are unreliable for unknown tokens, and mean nothing for texts of them: check the language and the "
    "encoding of the texts, and whether they have the letter case that the model expects (`do_lower_case`, which is "
    "set when a model is trained or loaded)."
)


class TokenCounts(NamedTuple):
    """Counts of some texts; they can be added up with `plus`.

    A pair of texts, which a model reads as one sequence, counts as one text.

    Attributes:
        texts: number of sequences, each of a text or a pair of texts.
        truncated: how many of them exceed the maximum length.
        tokens: number of tokens of the whole texts, without special tokens.
        unknown: how many of them are not in the vocabulary.
        unknown_texts: number of texts of whose tokens more than half are not in the vocabulary.
    """

    texts: int = 0
    truncated: int = 0
    tokens: int = 0
    unknown: int = 0
    unknown_texts: int = 0

    def plus(self, counts: Sequence[int]) -> "TokenCounts":
        """Returns the sum with other counts, in the order of the attributes."""
        return TokenCounts(*(int(one) + int(other) for one, other in zip(self, counts, strict=True)))

    @property
    def truncated_share(self) -> float:
        """Fraction of truncated texts; 0 without texts."""
        return self.truncated / max(1, self.texts)

    @property
    def unknown_share(self) -> float:
        """Fraction of unknown tokens; 0 without tokens."""
        return self.unknown / max(1, self.tokens)

    @property
    def unknown_texts_share(self) -> float:
        """Fraction of the texts that consist mostly of unknown tokens; 0 without texts."""
        return self.unknown_texts / max(1, self.texts)

    def large(self, share_of_texts: float = LARGE_SHARE_OF_TEXTS) -> set[str]:
        """Returns which counts are so large that a warning is due: `truncated`, `unknown`, `unknown_texts`.

        Args:
            share_of_texts: fraction of texts that consist mostly of unknown tokens, from which on it is large; 0 for
                any such text.
        """
        found = {
            "truncated": self.truncated_share > LARGE_SHARE,
            "unknown": self.unknown_share > LARGE_SHARE,
            "unknown_texts": self.unknown_texts > 0 and self.unknown_texts_share >= share_of_texts,
        }
        return {name for name, is_large in found.items() if is_large}

    def __str__(self):
        parts = [
            f"{self.truncated:,} of {self.texts:,} texts ({percent(self.truncated_share)}) are truncated",
            f"{self.unknown:,} of {self.tokens:,} tokens ({percent(self.unknown_share)}) are unknown",
        ]
        if self.unknown_texts:
            consist = word_for(self.unknown_texts, "consists", "consist")
            parts.append(
                f"{self.unknown_texts:,} of {self.texts:,} texts ({percent(self.unknown_texts_share)}) {consist} "
                "mostly of unknown tokens"
            )
        return "; ".join(parts)


def log_counts(file: str, counts: TokenCounts):
    """Logs the counts of a whole file, once: as a warning, with what to do, if some are large."""
    large = counts.large(share_of_texts=0)
    level = logging.WARNING if large else logging.INFO
    logging.log(level, "%s: %s.%s", file, counts, _advice(large))


def _advice(large, limit=None):
    """Returns sentences on what to do about these counts, each after a space."""
    first = f"the first {limit:,} tokens" if limit else "the beginning"
    truncated = (
        f" The model reads only {first} of truncated texts: use a larger `max_seq_length` when it is loaded or "
        "exported, or shorter texts."
    )
    of_unknown = large & {"unknown", "unknown_texts"}
    return (truncated if "truncated" in large else "") + (f" {_OF_UNKNOWN}" if of_unknown else "")


class TokenCountLog:
    """Adds up counts, and warns once of each kind that is large. Thread-safe.

    Args:
        name: name of the model, at the beginning of the warnings.
        max_seq_length: its maximum length in tokens; None if unknown.
        fewest: number of texts below which nothing is warned of.

    Attributes:
        warns: whether it does; false where the caller reports the counts.
    """

    def __init__(self, name: str, max_seq_length: int | None = None, fewest: int = 1):
        self._name, self._limit, self._fewest = name, max_seq_length, fewest
        self._lock, self._warned, self._held, self.warns = threading.Lock(), set(), 0, True
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
            self._total = self._total.plus(counts)
            held = self._held
        if not held:
            self._warn()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Warns only after the block, so that the numbers are those of all its texts rather than of a first batch."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
            self._warn()

    def _warn(self):
        with self._lock:
            total = self._total
            is_due = self.warns and total.texts >= self._fewest
            large = total.large() - self._warned if is_due else set()
            self._warned |= large
        if large:
            logging.warning("%s: %s.%s", self._name, total, _advice(large, self._limit))

    def __getstate__(self):
        return {"name": self._name, "max_seq_length": self._limit, "fewest": self._fewest}

    def __setstate__(self, state):
        self.__init__(**state)
