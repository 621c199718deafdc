"""How far rows are too short for what is laid out in them."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from bert_tf.data.checks import findings
from bert_tf.data.checks.findings import Finding, share
from bert_tf.data.checks.samples import Sample
from bert_tf.data.cut import Cut
from bert_tf.utils.counts import word_for


def cut_texts(sample: Sample, cut: Cut | None, has_windows_to_offer: bool) -> Iterator[Finding]:
    """Yields the examples of which something was cut off.

    Args:
        sample: n examples.
        cut: of their rows; None: nothing ever is.
        has_windows_to_offer: there is `long_text=window`, which is not used.
    """
    if cut is None or not len(indices := cut.examples):
        return
    most = int(cut.needed.max())
    nearly = int(np.quantile(cut.needed, 0.95, method="higher"))
    fits = f"{nearly:,} would do for 95 % of them, " if cut.limit < nearly < most else ""
    windows = ", or read them through windows with `long_text=window`" if has_windows_to_offer else ""
    yield Finding(
        "cut_texts",
        sample.path,
        len(indices),
        f"{share(len(indices), len(sample), 'examples', ('does', 'do'))} not fit `{cut.parameter}={cut.limit}` and "
        f"{word_for(len(indices), 'is', 'are')} cut: {share(cut.lost, cut.total, 'word pieces', ('is', 'are'))} lost; "
        f"{fits}{most:,} for all",
        f"raise `{cut.parameter}`{windows}",
        sample.places(indices),
        len(indices) >= findings.CUT * len(sample),
    )


@dataclasses.dataclass(frozen=True)
class Lengths:
    """How long examples are, in word pieces: half of them at most `median`, and so on."""

    median: int
    most: int
    longest: int

    @classmethod
    def of(cls, needed: np.ndarray) -> "Lengths":
        """Takes int64 [n], n at least 1."""
        return cls(*(int(np.quantile(needed, q, method="higher")) for q in (0.5, 0.95, 1)))
