"""Checks of the examples of a run's files before the run; this module checks for rows without a text or label."""

from collections.abc import Mapping

from bert_tf.data import label_checks, raw_file_checks
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.findings import DataFinding, format_positions, format_share
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.tables import is_empty
from bert_tf.data.text_checks import find_empty_texts, find_list_texts, find_overlap, find_repeated_texts
from bert_tf.utils.counts import word_for


def _unreadable(sample, noun, bad, nothing, parameter):
    """Yields the lines that keep training from starting: a text or label is missing or has the wrong type."""
    (kind, what), empty = nothing, {line: value for line, value in bad.items() if is_empty(value)}
    if empty:
        row = word_for(len(empty), "it in or remove the row", "them in or remove the rows")
        remedy = f"fill {row}"
        if noun == "label" and sample.has_several_labels:  # null may also mean that nobody has looked
            remedy = f"write an empty list or field for an example without labels; otherwise, {remedy}"
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


def check_samples(samples: Mapping[str, CheckedExamples]) -> list[DataFinding]:
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
