"""Checks of examples after tokenization: truncation, and tokens that are not in the vocabulary."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from bert_tf.data import findings
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.findings import DataFinding, format_share
from bert_tf.data.truncation import Truncation
from bert_tf.utils.counts import word_for
from bert_tf.utils.token_counts import TokenCounts


def find_truncated_texts(
    sample: CheckedExamples, truncation: Truncation | None, has_windows_to_offer: bool
) -> Iterator[DataFinding]:
    """Yields the examples that were truncated.

    Args:
        sample: n examples.
        truncation: what was truncated. If None, nothing is ever truncated.
        has_windows_to_offer: whether `long_text=window` is available but not used.
    """
    if truncation is None or not len(indices := truncation.examples):
        return
    most = int(truncation.needed.max())
    nearly = int(np.quantile(truncation.needed, 0.95, method="higher"))
    fits = f"{nearly:,} are enough for 95% of them, " if truncation.limit < nearly < most else ""
    windows = ", or process them in overlapping windows with `long_text=window`" if has_windows_to_offer else ""
    yield sample.finding(
        "cut_texts",
        indices,
        f"{format_share(len(indices), len(sample), 'examples', ('does', 'do'))} not fit into "
        f"`{truncation.parameter}={truncation.limit}` and {word_for(len(indices), 'is', 'are')} truncated: "
        f"{format_share(truncation.lost, truncation.total, 'tokens', ('is', 'are'))} lost; "
        f"{fits}{most:,} for all",
        f"raise `{truncation.parameter}`{windows}",
        findings.CUT,
    )


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of examples in tokens: the median, the 95th percentile (`most`) and the longest."""

    median: int
    most: int
    longest: int

    @classmethod
    def of(cls, needed: np.ndarray) -> "Lengths":
        """Takes int64 [n], n at least 1."""
        return cls(*(int(np.quantile(needed, q, method="higher")) for q in (0.5, 0.95, 1)))


def check_truncation(
    samples: Mapping[str, CheckedExamples],
    truncations: Mapping[str, Truncation | None],
    has_windows_to_offer: bool = False,
) -> list[DataFinding]:
    """Returns the findings about truncation during tokenization.

    Args:
        samples: as in `check_samples`.
        truncations: split -> what was truncated.
        has_windows_to_offer: as in `find_truncated_texts`.
    """
    several = ((samples[split], truncation) for split, truncation in truncations.items() if split in samples)
    return [finding for each in several for finding in find_truncated_texts(*each, has_windows_to_offer)]


def check_unknown_tokens(
    samples: Mapping[str, CheckedExamples], counts: Mapping[str, TokenCounts]
) -> list[DataFinding]:
    """Returns the findings about tokens that are not in the vocabulary: a warning if `counts` has many, or a note.

    Args:
        samples: as in `check_samples`.
        counts: split -> the counts of its tokens.
    """
    several = [(samples[split], each) for split, each in counts.items() if split in samples and each.unknown]
    return [
        DataFinding(
            "unknown_tokens",
            sample.path,
            each.unknown,
            f"{format_share(each.unknown, each.tokens, 'tokens', ('is', 'are'))} not in the vocabulary of the model"
            f"{_share_of_texts(each)}",
            "check the language and the encoding of the texts, and `do_lower_case`",
            is_warning=not each.large().isdisjoint({"unknown", "unknown_texts"}),
        )
        for sample, each in several
    ]


def _share_of_texts(counts):
    if not counts.unknown_texts:
        return ""
    share = format_share(counts.unknown_texts, counts.texts, "texts", ("consists", "consist"))
    return f"; {share} mostly of such tokens"
