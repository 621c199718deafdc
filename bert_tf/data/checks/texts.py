"""Texts that are probably a mistake: empty ones, the same one again, with another label, or in the evaluation too."""

import itertools
from collections.abc import Iterator

import numpy as np

from bert_tf.data.checks import findings
from bert_tf.data.checks.findings import Finding, share
from bert_tf.data.checks.samples import EMPTY, Sample
from bert_tf.utils.counts import word_for


def empty(sample: Sample) -> Iterator[Finding]:
    """Yields the texts without a character that is no space, of those that every example should have."""
    for name, texts in sample.texts.items():
        if name in sample.optional:
            continue
        indices = [i for i in np.flatnonzero(sample.hashes[name] == EMPTY) if not texts[i].strip()]
        if not indices:
            continue
        them = word_for(len(indices), "it", "them")
        yield Finding(
            "empty_texts",
            sample.path,
            len(indices),
            f"{share(len(indices), len(sample), 'examples', ('has', 'have'))} an empty {name}",
            f"take {them} out, or fill {them} in",
            sample.places(indices),
            len(indices) >= findings.EMPTY * len(sample),
        )


def repeated(sample: Sample) -> Iterator[Finding]:
    """Yields examples that stand there again: with the same target, or with another one."""
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
        them = word_for(len(again), "it", "them")
        yield Finding(
            "duplicates",
            sample.path,
            len(again),
            f"{share(len(again), len(sample), 'examples', ('repeats', 'repeat'))} an earlier one",
            f"take {them} out, or leave {them} if texts recur where they come from",
            sample.places(sorted(again)),
            len(again) >= findings.DUPLICATES * len(sample),
        )
    if contrary:
        yield _contradictions(sample, sorted(i for group, _ in contrary for i in group), contrary[0][1])


def overlap(train: Sample, held_out: Sample) -> Iterator[Finding]:
    """Yields the examples of a file to score on whose texts are in the one to learn from."""
    known, (hashes, examples) = train.fingerprints[0], held_out.fingerprints
    places = np.searchsorted(known, hashes)
    indices = np.sort(examples[known[np.minimum(places, len(known) - 1)] == hashes]) if len(known) else []
    if len(indices):
        yield Finding(
            "overlap",
            held_out.path,
            len(indices),
            f"{share(len(indices), len(held_out), 'examples', ('is', 'are'))} in {train.path} too, which makes scores "
            "better than they are",
            f"take {word_for(len(indices), 'it', 'them')} out of one of the two files",
            held_out.places(indices),
            len(indices) >= findings.OVERLAP * len(held_out),
        )


def _groups(hashes, examples):
    """Returns the lists of examples that share a hash, each ascending, of hashes that are ascending."""
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])[: len(hashes)])
    limits = np.append(starts[1:], len(hashes))
    several = np.flatnonzero(limits - starts > 1)
    return [examples[starts[i] : limits[i]].tolist() for i in several]


def _contradictions(sample, indices, first):
    """Returns the finding; first: target -> example, of one text."""
    (one, i), (other, k) = list(first.items())[:2]
    here, there = sample.places([i, k])
    one, other = _difference(one, other)
    text = " / ".join(texts[i] for texts in sample.texts.values())
    return Finding(
        "contradictions",
        sample.path,
        len(indices),
        f"{share(len(indices), len(sample), 'examples')} have the text of another one, and not its {sample.target}: "
        f"{text[:60]!r} has {one!r:.40} in {here} and {other!r:.40} in {there}",
        "decide for one, or take both out",
        sample.places(indices),
        len(indices) >= findings.CONTRADICTIONS * len(sample),
    )


def _difference(one, other):
    """Returns what differs in two targets: of sequences the first items that do."""
    if isinstance(one, frozenset):
        return sorted(one), sorted(other)
    if isinstance(one, tuple):
        return next(pair for pair in itertools.zip_longest(one, other) if pair[0] != pair[1])
    return one, other
