"""Output files of a search for label errors: a table, all held-out probabilities, and a report page."""

import collections
import dataclasses
import functools
import os
from collections.abc import Sequence

import numpy as np

from bert_tf.data.tables import LabeledTexts
from bert_tf.experiments.label_errors.confident_learning import Suspicion
from bert_tf.experiments.label_errors.folds import texts_of
from bert_tf.utils.counts import percent
from bert_tf.utils.files import atomic_open, write_text
from bert_tf.utils.html_report import Page

ERRORS_FILE, DUPLICATES_FILE, PROBABILITIES_FILE = "label_errors.tsv", "near_duplicates.tsv", "held_out.tsv"
PAGE_FILE = "label_errors.html"
_ON_PAGE = 200  # rows


@dataclasses.dataclass(frozen=True)
class Findings:
    """Probable label errors and near-duplicates in a training file of n examples.

    Attributes:
        examples: examples of the file.
        labels: the L names.
        given: int [n], the examples' labels.
        probabilities: float [n, L], held out.
        suspicion: probable label errors according to these.
        groups: int [n], equal for near-duplicates.
    """

    examples: LabeledTexts
    labels: Sequence[str]
    given: np.ndarray
    probabilities: np.ndarray
    suspicion: Suspicion
    groups: np.ndarray

    @property
    def suspects(self) -> np.ndarray:
        """int [m], the examples predicted as a class other than their label, the most likely error first."""
        order = self.suspicion.order
        return order[self.suspicion.is_error[order]]

    @functools.cached_property
    def _members(self):
        members = collections.defaultdict(list)
        for i, group in enumerate(self.groups.tolist()):
            members[group].append(i)
        return members

    def duplicates(self) -> list[list[int]]:
        """Returns the groups of near-duplicates, those with several labels first, in the order of the file."""
        several = [each for each in self._members.values() if len(each) > 1]
        return sorted(several, key=lambda each: (not self.has_several_labels(each), each[0]))

    def has_several_labels(self, indices: Sequence[int]) -> bool:
        """Returns whether these examples differ in their labels."""
        return len(set(self.given[list(indices)].tolist())) > 1

    def others(self, i: int) -> list[int]:
        """Returns the near-duplicates of an example, without itself."""
        return [k for k in self._members[int(self.groups[i])] if k != i]

    def text(self, i: int) -> str:
        """Returns the example's texts in one line."""
        return " | ".join(" ".join(each.split()) for each in texts_of(self.examples, i))


def write_findings(directory: str, findings: Findings):
    """Writes three tables and the page.

        label_errors.tsv      rank, line, label, likely_label, probability, likely_probability, near_duplicates, text:
                              the examples that count as a class other than their label
        near_duplicates.tsv   group, line, label, same_label, text
        held_out.tsv          line, label, and the probability of each label, of every example

    Raises:
        OSError: a file cannot be written; it is unchanged.
    """
    pairs = zip(findings.examples.lines, findings.given, findings.probabilities, strict=True)
    probabilities = ((line, findings.labels[given], *(f"{p:.6f}" for p in row)) for line, given, row in pairs)
    tables = {
        ERRORS_FILE: (("rank", "line", "label", "likely_label", "probability", "likely_probability",
                       "near_duplicates", "text"), _error_rows(findings)),
        DUPLICATES_FILE: (("group", "line", "label", "same_label", "text"), _duplicate_rows(findings)),
        PROBABILITIES_FILE: (("line", "label", *findings.labels), probabilities),
    }  # fmt: skip
    for name, (header, rows) in tables.items():
        with atomic_open(os.path.join(directory, name)) as file:
            for row in (header, *rows):
                file.write("\t".join(" ".join(str(cell).split("\t")) for cell in row) + "\n")
    write_text(os.path.join(directory, PAGE_FILE), build_label_errors_page(findings))


def summarize_findings(findings: Findings) -> list[str]:
    """Summarizes the findings in a few sentences."""
    n, suspicion, duplicates = len(findings.given), findings.suspicion, findings.duplicates()
    agree = float((findings.probabilities.argmax(1) == findings.given).mean())
    both = sum(map(findings.has_several_labels, duplicates))
    return [
        f"{findings.examples.path}: out-of-fold predictions agree with the label for {percent(agree)} of {n:,} "
        "examples.",
        f"{len(findings.suspects):,} examples are likely label errors: another label is more probable than theirs, and "
        f"at least as probable as it usually is for examples that have it. The estimated number of label errors is "
        f"{suspicion.estimate:,.0f}; the weaker the models, the more of these are errors of the models.",
        f"{sum(map(len, duplicates)):,} examples are near-duplicates of others, in {len(duplicates):,} groups. "
        f"{both:,} of these groups have more than one label.",
    ]


def build_label_errors_page(findings: Findings) -> str:
    """Returns one HTML file: the most likely errors, duplicates with different labels, and the confused labels."""
    document = Page(f"Label errors: {os.path.basename(findings.examples.path)}")
    for sentence in summarize_findings(findings):
        document.text(sentence)
    document.text(
        "The label may be correct and the models wrong: review each example before you change it. The TSV files next "
        "to this page list all of them."
    )
    suspects = findings.suspects
    rows = [_page_row(findings, i) for i in suspects[:_ON_PAGE]]
    columns = ("line", "label", "probability", "likely label", "probability", "text")
    document.table(f"Most likely label errors: first {len(rows):,} of {len(suspects):,}", rows, columns)
    two = [each for each in findings.duplicates() if findings.has_several_labels(each)]
    rows = [(findings.examples.lines[i], number, findings.labels[findings.given[i]], findings.text(i))
            for number, each in enumerate(two[:_ON_PAGE], 1) for i in each]  # fmt: skip
    columns = ("line", "group", "label", "text")
    document.table(f"Near-duplicates with several labels: {len(two):,} groups", rows, columns)
    columns = ("label", "likely label", "examples", "counted examples with the label")
    document.table("Counts by label and likely label", _count_pairs(findings), columns)
    return document.html()


def _page_row(findings, i):
    given, likely, p = findings.given[i], findings.suspicion.likely[i], findings.probabilities[i]
    sides = (cell for side in (given, likely) for cell in (findings.labels[side], f"{p[side]:.3f}"))
    return (findings.examples.lines[i], *sides, findings.text(i))


def change(findings: Findings, i: int) -> str:
    """Returns an example's label and its likely label, with their probabilities."""
    given, likely = findings.given[i], findings.suspicion.likely[i]
    return (
        f"{findings.labels[given]} {findings.probabilities[i, given]:.3f} -> "
        f"{findings.labels[likely]} {findings.probabilities[i, likely]:.3f}"
    )


def _count_pairs(findings):
    """Returns rows: two labels, how often the second is likely if the first was given, and the number of the first."""
    joint, names = findings.suspicion.joint, findings.labels
    pairs = [(joint[a, b], a, b) for a, b in zip(*np.nonzero(joint), strict=True) if a != b]
    pairs = sorted(pairs, key=lambda each: (-each[0], each[1:]))[:_ON_PAGE]
    return [(names[a], names[b], f"{count:,}", f"{joint[a].sum():,}") for count, a, b in pairs]


def _error_rows(findings):
    examples, p = findings.examples, findings.probabilities
    for rank, i in enumerate(findings.suspects, 1):
        given, likely = findings.given[i], findings.suspicion.likely[i]
        others = ",".join(str(examples.lines[k]) for k in findings.others(i))
        yield (rank, examples.lines[i], findings.labels[given], findings.labels[likely], f"{p[i, given]:.6f}",
               f"{p[i, likely]:.6f}", others, findings.text(i))  # fmt: skip


def _duplicate_rows(findings):
    for number, indices in enumerate(findings.duplicates(), 1):
        same = "no" if findings.has_several_labels(indices) else "yes"
        for i in indices:
            label = findings.labels[findings.given[i]]
            yield number, findings.examples.lines[i], label, same, findings.text(i)
