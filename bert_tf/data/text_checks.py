"""Texts that are probably a mistake: empty ones, the same one again, with another label, or in the evaluation too."""

import itertools
from collections.abc import Iterator

import numpy as np

from bert_tf.data import findings
from bert_tf.data.checked_examples import EMPTY_TEXT_HASH, CheckedExamples
from bert_tf.data.findings import DataFinding, format_share
from bert_tf.data.list_cells import parse_list
from bert_tf.data.row_errors import excerpt
from bert_tf.utils.counts import word_for


def find_empty_texts(sample: CheckedExamples) -> Iterator[DataFinding]:
    """Yields the texts that are required but blank."""
    for name, texts in sample.texts.items():
        if name in sample.optional:
            continue
        indices = [i for i in np.flatnonzero(sample.hashes[name] == EMPTY_TEXT_HASH).tolist() if not texts[i].strip()]
        if not indices:
            continue
        them = word_for(len(indices), "it", "them")
        yield sample.finding(
            "empty_texts",
            indices,
            f"{format_share(len(indices), len(sample), 'examples', ('has', 'have'))} an empty {name}",
            f"remove {them} or fill {them} in",
            findings.EMPTY,
        )


def find_list_texts(sample: CheckedExamples) -> Iterator[DataFinding]:
    """Yields columns whose texts are lists, such as of words, in the notation of JSON, Python or numpy."""
    for name, texts in sample.texts.items():
        indices = [i for i, text in enumerate(texts) if text[:1] == "[" and parse_list(text) is not None]
        if len(indices) > findings.LISTS * len(sample):
            yield sample.finding(
                "list_texts",
                indices,
                f"{format_share(len(indices), len(sample), 'examples', ('has', 'have'))} a list instead of a {name}, "
                f"such as {excerpt(texts[indices[0]])}, which is read with its brackets and quotes",
                "write each text without them, or as a column of its own",
            )


def find_repeated_texts(sample: CheckedExamples) -> Iterator[DataFinding]:
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
            findings.DUPLICATES,
        )
    if contrary:
        yield _contradictions(sample, sorted(i for group, _ in contrary for i in group), contrary[0][1])


def find_overlap(train: CheckedExamples, held_out: CheckedExamples) -> Iterator[DataFinding]:
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
            findings.OVERLAP,
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
        findings.CONTRADICTIONS,
    )


def _difference(one, other):
    """Returns what differs in two targets: for sequences, the first items that differ."""
    if isinstance(one, frozenset):
        return sorted(one), sorted(other)
    if isinstance(one, tuple):
        return next(pair for pair in itertools.zip_longest(one, other) if pair[0] != pair[1])
    return one, other
