"""Labels that are probably a mistake: two spellings of one, a distinct one in each row, very rare ones."""

import collections
import unicodedata
from collections.abc import Iterator

from bert_tf.data import columns
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.findings import DataFinding
from bert_tf.data.list_cells import find_separator
from bert_tf.data.row_errors import excerpt
from bert_tf.utils.counts import number_of, word_for

UNKNOWN = "unknown_labels"  # a file with these cannot be encoded
_RARE = 2  # maximum number of examples of a rare label
FEW_ROWS = 10  # with fewer rows, neither the number of labels nor a first row that stands out means anything
_SHOWN = 6  # number of labels shown
_SCORE = columns.number()
_TRUTH = {"true": "1", "yes": "1", "1": "1", "false": "0", "no": "0", "0": "0"}


def check_training_labels(sample: CheckedExamples) -> Iterator[DataFinding]:
    """Yields the problems with the labels of a training file."""
    counts = count_labels(sample)
    yield from _spellings(sample, counts)
    yield from _several_in_one(sample, counts)
    if sample.labels is not None and len(counts) < 2:
        yield from _too_few(sample, counts)
    elif len(counts) > len(sample) / 2 and len(sample) >= FEW_ROWS:
        yield _too_many(sample, counts)
    else:
        yield from _rare(sample, counts)


def check_evaluation_labels(sample: CheckedExamples, train: CheckedExamples) -> Iterator[DataFinding]:
    """Yields the labels that only one of an evaluation file and the training file has."""
    known, own = count_labels(train), count_labels(sample)
    if unknown := {name: count for name, count in own.items() if name not in known}:
        yield _unknown_labels(sample, train, known, unknown)
    if own and (untested := {name: count for name, count in known.items() if name not in own}):
        them = word_for(len(untested), "it", "them")
        yield DataFinding(
            "untested_labels",
            sample.path,
            len(untested),
            f"no examples of {len(untested)} of the {number_of(len(known), sample.label)} in {train.path}, so "
            f"{word_for(len(untested), 'its', 'their')} quality is not measured: {_list_counts(untested)} in training",
            f"add examples of {them}, or split the data with `bert-tf data split`, which preserves label proportions",
        )


def _unknown_labels(sample, train, known, unknown):
    near = {_plain(name): name for name in known}
    alike = [f"{name!r} is {near[_plain(name)]!r} in training" for name in sorted(unknown) if _plain(name) in near]
    them = word_for(len(unknown), "it", "them")
    return DataFinding(
        UNKNOWN,
        sample.path,
        len(unknown),
        f"{number_of(len(unknown), sample.label)} that {train.path} lacks: {_list_counts(unknown)}"
        + (f"; ignoring spaces and letter case, {', '.join(alike[:_SHOWN])}" if alike else ""),
        f"correct {them}, or add training examples of {them}",
        _positions_of(sample, unknown),
    )


def count_labels(sample: CheckedExamples) -> dict[str, int]:
    """Returns the number of examples per label; {} if labels are not names."""
    labels = sample.labels or ()
    if len(labels) and not isinstance(labels[0], str):
        labels = (name for names in labels for name in names)
    return dict(collections.Counter(labels))


def is_number(name: str) -> bool:
    """Returns whether a cell is a number that a column of scores may have: 3 or 1e-5, but not nan, inf or 1_000."""
    return _SCORE.read(name) is not None


def _spellings(sample, counts):
    groups, plain = collections.defaultdict(list), {name: _plain(name) for name in counts}
    is_mixed = len(set(plain.values())) > 2 and all(each in _TRUTH for each in plain.values())  # True, 1 and yes
    if is_mixed:
        plain = {name: _TRUTH[each] for name, each in plain.items()}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups[plain[name]].append(name)
    several = [names for names in groups.values() if len(names) > 1]
    if not several:
        return
    rarer = {name for names in several for name in names[1:]}
    alike = ", ".join(" and ".join(f"{name!r} {counts[name]}" for name in names) for names in several[:_SHOWN])
    yield DataFinding(
        "label_spellings",
        sample.path,
        len(rarer),
        f"{len(counts)} {sample.label}s, but only {len(groups)} if spaces and letter case are ignored"
        f"{' and 1.0 is 1' if any(map(is_number, rarer)) else ''}"
        f"{', and true and yes are 1' if is_mixed else ''}: {alike}"
        + (", ..." if len(several) > _SHOWN else ""),
        "give each one spelling",
        _positions_of(sample, rarer),
    )


def _several_in_one(sample, counts):
    """Yields labels that seem to be several names in one cell."""
    if sample.labels is None or not isinstance(next(iter(sample.labels), None), str):
        return
    if separator := find_separator(counts):
        composite = {name: count for name, count in counts.items() if separator in name}
        yield DataFinding(
            "several_labels",
            sample.path,
            len(composite),
            f"{len(composite)} of {len(counts)} {sample.label}s seem to be several names separated by {separator!r}: "
            f"{_list_counts(composite)}",
            f"set `problem_type=multi_label` and `label_separator={separator}`, or ignore this if each is one name",
            _positions_of(sample, composite),
        )


def _too_few(sample, counts):
    """Yields labels that cannot be learned: none at all, or the same one for every example."""
    if not counts:
        what, remedy = f"no {sample.label} in {number_of(len(sample), 'example')}", "add examples that have one"
        yield DataFinding("no_labels", sample.path, len(sample), f"{what}, so nothing can be learned",
                      f"check where the {sample.label}s are, or {remedy}")  # fmt: skip
    elif isinstance(sample.labels[0], str):
        yield DataFinding(
            "one_label",
            sample.path,
            len(sample),
            f"{sample.label} {excerpt(next(iter(counts)), 40)} in all {len(sample):,} examples; training will not "
            "start with a single label",
            "check `label_column`, or add examples with another label",
        )


def _too_many(sample, counts):
    numbers = all(map(is_number, counts))
    remedy = ", or set `problem_type=regression` if they are scores" if numbers else ""
    return DataFinding(
        "many_labels",
        sample.path,
        len(counts),
        f"{len(counts):,} {sample.label}s in {len(sample):,} examples, more than one per two examples: "
        f"{_list_counts(counts)}",
        f"check `label_column`{remedy}",
    )


def _rare(sample, counts):
    together = collections.Counter()
    for name, count in counts.items():
        together[_plain(name)] += count
    rare = {name: count for name, count in counts.items() if together[_plain(name)] <= _RARE}
    if rare:
        yield DataFinding(
            "rare_labels",
            sample.path,
            len(rare),
            f"{len(rare)} of {len(counts)} {sample.label}s with {_RARE} examples or fewer: {_list_counts(rare)}",
            "add examples or merge such labels, because so few examples teach the model nothing",
            _positions_of(sample, rare),
        )


def _positions_of(sample, names):
    return sample.positions(i for i in range(len(sample)) if any(name in names for name in sample.names(i)))


def _list_counts(counts):
    chosen = sorted(counts, key=lambda name: (counts[name], name))
    shown = ", ".join(f"{name[:40]!r} {counts[name]}" for name in chosen[:_SHOWN])
    return shown + (", ..." if len(chosen) > _SHOWN else "")


def _plain(name):
    plain = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    # The zeros at the end of 1.5e10 are those of its exponent.
    return plain.rstrip("0").rstrip(".") if "." in plain and "e" not in plain and is_number(plain) else plain
