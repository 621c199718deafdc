"""Labels that are probably a mistake: two spellings of one, one for every row, some with hardly an example."""

import collections
import unicodedata
from collections.abc import Iterator

from bert_tf.data.checks.findings import Finding
from bert_tf.data.checks.samples import Sample
from bert_tf.data.rows import excerpt
from bert_tf.utils.counts import number_of, word_for

UNKNOWN = "unknown_labels"  # with which a file cannot be laid out
_RARE = 2  # examples, at most, of a rare label
_FEW_ROWS = 10  # fewer say nothing of how many labels there should be
_SHOWN = 6  # labels


def of_training(sample: Sample) -> Iterator[Finding]:
    """Yields what is wrong with the labels of a file to learn from."""
    counts = count_labels(sample)
    yield from _spellings(sample, counts)
    if sample.labels is not None and len(counts) < 2:
        yield from _too_few(sample, counts)
    elif len(counts) > len(sample) / 2 and len(sample) >= _FEW_ROWS:
        yield _too_many(sample, counts)
    else:
        yield from _rare(sample, counts)


def of_evaluation(sample: Sample, train: Sample) -> Iterator[Finding]:
    """Yields the labels of a file to score on that are not in the one to learn from."""
    known = count_labels(train)
    unknown = {name: count for name, count in count_labels(sample).items() if name not in known}
    if not unknown:
        return
    near = {_plain(name): name for name in known}
    alike = [f"{name!r} is {near[_plain(name)]!r} there" for name in sorted(unknown) if _plain(name) in near]
    them = word_for(len(unknown), "it", "them")
    yield Finding(
        UNKNOWN,
        sample.path,
        len(unknown),
        f"{number_of(len(unknown), sample.label)} that {train.path} does not have: {_listed(unknown)}"
        + (f", of which, if spaces and letter case are ignored, {', '.join(alike[:_SHOWN])}" if alike else ""),
        f"correct {them}, or train on examples of {them} too",
        _places(sample, unknown),
    )


def count_labels(sample: Sample) -> dict[str, int]:
    """Returns how many examples each label has; {} where labels are no names."""
    labels = sample.labels or ()
    if len(labels) and not isinstance(labels[0], str):
        labels = (name for names in labels for name in names)
    return dict(collections.Counter(labels))


def is_number(name: str) -> bool:
    """Says whether a cell holds a number, written without an exponent."""
    return name.strip().lstrip("+-").replace(".", "", 1).isdecimal()


def _spellings(sample, counts):
    groups = collections.defaultdict(list)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups[_plain(name)].append(name)
    several = [names for names in groups.values() if len(names) > 1]
    if not several:
        return
    rarer = {name for names in several for name in names[1:]}
    alike = ", ".join(" and ".join(f"{name!r} {counts[name]}" for name in names) for names in several[:_SHOWN])
    yield Finding(
        "label_spellings",
        sample.path,
        len(rarer),
        f"{len(counts)} {sample.label}s, but only {len(groups)} if spaces and letter case are ignored"
        f"{' and 1.0 is 1' if any(map(is_number, rarer)) else ''}: {alike}"
        + (", ..." if len(several) > _SHOWN else ""),
        "give each one spelling",
        _places(sample, rarer),
    )


def _too_few(sample, counts):
    """Yields what training cannot tell apart: no label at all, or a single one that every example has."""
    if not counts:
        what, remedy = f"no {sample.label} in {number_of(len(sample), 'example')}", "add examples that have one"
        yield Finding("no_labels", sample.path, len(sample), f"{what}, of which nothing is learned",
                      f"check where the {sample.label}s are, or {remedy}")  # fmt: skip
    elif isinstance(sample.labels[0], str):
        yield Finding(
            "one_label",
            sample.path,
            len(sample),
            f"{sample.label} {excerpt(next(iter(counts)), 40)} in all {len(sample):,} examples, with which training "
            "does not start",
            "check `label_column`, or add examples of another",
        )


def _too_many(sample, counts):
    numbers = all(map(is_number, counts))
    remedy = ", or say `problem_type=regression` if they are scores" if numbers else ""
    return Finding(
        "many_labels",
        sample.path,
        len(counts),
        f"{len(counts):,} {sample.label}s in {len(sample):,} examples, more than one in two: {_listed(counts)}",
        f"check `label_column`{remedy}",
    )


def _rare(sample, counts):
    together = collections.Counter()
    for name, count in counts.items():
        together[_plain(name)] += count
    rare = {name: count for name, count in counts.items() if together[_plain(name)] <= _RARE}
    if rare:
        yield Finding(
            "rare_labels",
            sample.path,
            len(rare),
            f"{len(rare)} of {len(counts)} {sample.label}s with {_RARE} examples or fewer: {_listed(rare)}",
            "add examples, or put such labels together, for nothing is learned of them",
            _places(sample, rare),
        )


def _places(sample, names):
    """Returns where the examples are that have a label of these."""
    return sample.places(i for i in range(len(sample)) if any(name in names for name in sample.names(i)))


def _listed(counts):
    chosen = sorted(counts, key=lambda name: (counts[name], name))
    shown = ", ".join(f"{name[:40]!r} {counts[name]}" for name in chosen[:_SHOWN])
    return shown + (", ..." if len(chosen) > _SHOWN else "")


def _plain(name):
    plain = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    return plain.rstrip("0").rstrip(".") if "." in plain and is_number(plain) else plain
