"""Checks of examples before a run: truncation, duplicate texts, suspicious labels."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from bert_tf.data import label_checks, lint_sample, raw_file_checks
from bert_tf.data.dataset import Truncation
from bert_tf.data.lint_sample import EMPTY_TEXT_HASH, DataFinding, LintSample, format_positions, format_share
from bert_tf.data.list_cells import as_list, parse_list
from bert_tf.data.table_reader import excerpt, line_position
from bert_tf.data.tables import is_empty
from bert_tf.utils.names import word_for
from bert_tf.utils.token_counts import TokenCounts

# === Truncation ===


def find_truncated_texts(
    sample: LintSample, truncation: Truncation | None, has_windows_to_offer: bool
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
    fits = f"{nearly:,} are enough for 95 % of them, " if truncation.limit < nearly < most else ""
    windows = ", or process them in overlapping windows with `long_text=window`" if has_windows_to_offer else ""
    yield sample.finding(
        "cut_texts",
        indices,
        f"{format_share(len(indices), len(sample), 'examples', ('does', 'do'))} not fit into "
        f"`{truncation.parameter}={truncation.limit}` and {word_for(len(indices), 'is', 'are')} truncated: "
        f"{format_share(truncation.lost, truncation.total, 'tokens', ('is', 'are'))} lost; "
        f"{fits}{most:,} for all",
        f"raise `{truncation.parameter}`{windows}",
        lint_sample.CUT,
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


# === Unreadable rows ===
# Rows that could not be examples: without a text, or without a label that can be read.


def _unreadable(sample, noun, bad, nothing, parameter):
    """Yields the lines that keep training from starting: a text or label is missing or has the wrong type."""
    (kind, what), empty = nothing, {line: value for line, value in bad.items() if is_empty(value)}
    if empty:
        row = word_for(len(empty), "it in or remove the row", "them in or remove the rows")
        remedy = f"fill {row}"
        if noun == "label" and sample.has_several_labels:  # null may also mean that nobody has looked
            remedy = f"write an empty list or field where a text has none of the labels; otherwise, {remedy}"
        yield _finding(sample, kind, empty, what, remedy)
    if other := {line: value for line, value in bad.items() if line not in empty}:
        what = f"a {noun} that cannot be read, such as {excerpt(next(iter(other.values())))}"
        them = word_for(len(other), "it", "them")
        remedy = f"correct {them}, or check `{parameter}`"
        if noun == "label" and any(isinstance(as_list(value), list) for value in other.values()):
            remedy = f"set `problem_type=multi_label` if examples have several labels; otherwise, {remedy}"
        yield _finding(sample, f"bad_{noun}s", other, what, remedy)


def _finding(sample, kind, lines, what, remedy):
    count = len(sample) + len(sample.bad_labels) + len(sample.bad_texts)
    rows = format_share(len(lines), count, "rows", ("has", "have"))
    indices = format_positions(sample.path, (line_position(sample.path, line) for line in lines))
    return DataFinding(
        kind, sample.path, len(lines), f"{rows} {what}; training will not start", remedy, indices
    )


# === Texts ===
# Texts that are probably a mistake: empty ones, the same one again, with another label, or in the evaluation too.


def find_empty_texts(sample: LintSample) -> Iterator[DataFinding]:
    """Yields the texts that are required but blank."""
    for name, texts in sample.texts.items():
        if name in sample.optional:
            continue
        indices = [i for i in np.flatnonzero(sample.hashes[name] == EMPTY_TEXT_HASH) if not texts[i].strip()]
        if not indices:
            continue
        them = word_for(len(indices), "it", "them")
        yield sample.finding(
            "empty_texts",
            indices,
            f"{format_share(len(indices), len(sample), 'examples', ('has', 'have'))} an empty {name}",
            f"remove {them} or fill {them} in",
            lint_sample.EMPTY,
        )


def find_list_texts(sample: LintSample) -> Iterator[DataFinding]:
    """Yields columns whose texts are lists, such as of words, in the notation of JSON, Python or numpy."""
    for name, texts in sample.texts.items():
        indices = [i for i, text in enumerate(texts) if text[:1] == "[" and parse_list(text) is not None]
        if len(indices) > lint_sample.LISTS * len(sample):
            yield sample.finding(
                "list_texts",
                indices,
                f"{format_share(len(indices), len(sample), 'examples', ('has', 'have'))} a list instead of a {name}, "
                f"such as {excerpt(texts[indices[0]])}, which is read with its brackets and quotes",
                "write each text without them, or as a column of its own",
            )


def find_repeated_texts(sample: LintSample) -> Iterator[DataFinding]:
    """Yields examples that repeat an earlier text, with the same target or with a different one."""
    again, contrary = [], []
    for group in sorted(_groups(*sample.fingerprints)):
        first = {}
        for i in group:
            if (target := sample.targets[i] if sample.targets is not None else None) in first:
                again.append(i)
            first.setdefault(target, i)
        if len(first) > 1:
            contrary.append((group, first))
    if again:
        again.sort()
        them = word_for(len(again), "it", "them")
        yield sample.finding(
            "duplicates",
            again,
            f"{format_share(len(again), len(sample), 'examples', ('repeats', 'repeat'))} an earlier one",
            f"remove {them}, or keep {them} if repeated texts are normal in this data",
            lint_sample.DUPLICATES,
        )
    if contrary:
        yield _contradictions(sample, sorted(i for group, _ in contrary for i in group), contrary[0][1])


def find_overlap(train: LintSample, held_out: LintSample) -> Iterator[DataFinding]:
    """Yields the evaluation examples whose texts are also in the training file."""
    known, (hashes, examples) = train.fingerprints[0], held_out.fingerprints
    at = np.searchsorted(known, hashes)
    indices = np.sort(examples[known[np.minimum(at, len(known) - 1)] == hashes]) if len(known) else []
    if len(indices):
        yield held_out.finding(
            "overlap",
            indices,
            f"{format_share(len(indices), len(held_out), 'examples', ('is', 'are'))} also in {train.path}, which makes "
            "the evaluation results too optimistic",
            f"remove {word_for(len(indices), 'it', 'them')} from one of the two files",
            lint_sample.OVERLAP,
        )


def _groups(hashes, examples):
    """Returns the lists of examples that share a hash, each ascending, of hashes that are ascending."""
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])[: len(hashes)])
    limits = np.append(starts[1:], len(hashes))
    several = np.flatnonzero(limits - starts > 1)
    return [examples[starts[i] : limits[i]].tolist() for i in several]


def _contradictions(sample, indices, first):
    (one, i), (other, k) = list(first.items())[:2]
    here, there = sample.positions([i, k])
    one, other = _difference(one, other)
    text = " / ".join(texts[i] for texts in sample.texts.values())
    return sample.finding(
        "contradictions",
        indices,
        f"{format_share(len(indices), len(sample), 'examples')} have the same text as another one, but a different "
        f"{sample.target}: {text[:60]!r} has {one!r:.40} in {here} and {other!r:.40} in {there}",
        "keep one of them, or remove both",
        lint_sample.CONTRADICTIONS,
    )


def _difference(one, other):
    """Returns what differs in two targets: of sequences the first items that do."""
    if isinstance(one, frozenset):
        return sorted(one), sorted(other)
    if isinstance(one, tuple):
        return next(pair for pair in itertools.zip_longest(one, other) if pair[0] != pair[1])
    return one, other


# === All checks ===
# Checks of a run's files.


def check_samples(samples: Mapping[str, LintSample]) -> list[DataFinding]:
    """Returns the probable mistakes in the files of a run, the training file first.

    The cost is a few percent of tokenizing the examples, and depends only on the number of examples.

    Args:
        samples: split -> its examples; splits are "train", and names that begin with "dev", "final" or "test".
    """
    found, train = [], samples.get("train")
    for split, sample in samples.items():
        found += [*sample.findings, *raw_file_checks.check_raw_file(sample)]
        found += _unreadable(sample, "text", sample.bad_texts, ("missing_texts", "no text"), "text_column")
        found += _unreadable(sample, "label", sample.bad_labels, ("empty_labels", "an empty label"), "label_column")
        found += [*find_empty_texts(sample), *find_list_texts(sample)]
        if split == "train":
            found += label_checks.check_training_labels(sample)
        if not split.startswith("test"):
            found += find_repeated_texts(sample)
        if split.startswith(("dev", "final")) and train:
            found += label_checks.check_evaluation_labels(sample, train) if train.labels is not None else []
            found += find_overlap(train, sample)
    return found


def check_truncation(
    samples: Mapping[str, LintSample], truncations: Mapping[str, Truncation | None], has_windows_to_offer: bool = False
) -> list[DataFinding]:
    """Returns the findings about truncation during tokenization.

    Args:
        samples: as in `check_samples`.
        truncations: split -> what was truncated.
        has_windows_to_offer: as in `find_truncated_texts`.
    """
    several = ((samples[split], truncation) for split, truncation in truncations.items() if split in samples)
    return [finding for each in several for finding in find_truncated_texts(*each, has_windows_to_offer)]


def check_unknown_tokens(samples: Mapping[str, LintSample], counts: Mapping[str, TokenCounts]) -> list[DataFinding]:
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
