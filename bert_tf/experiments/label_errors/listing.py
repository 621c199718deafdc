"""What is written of likely wrong labels: a table to correct the file by, all held-out probabilities, and a page."""

import collections
import dataclasses
import functools
import os
from collections.abc import Sequence

import numpy as np

from bert_tf.data.tables import Examples
from bert_tf.experiments.label_errors.confident import Suspicion
from bert_tf.experiments.label_errors.folds import texts_of
from bert_tf.utils.counts import percent
from bert_tf.utils.files import atomic_open, write_text
from bert_tf.utils.report import Page

ERRORS_FILE, DUPLICATES_FILE, PROBABILITIES_FILE = "label_errors.tsv", "near_duplicates.tsv", "held_out.tsv"
PAGE_FILE = "label_errors.html"
_ON_PAGE = 200  # rows


@dataclasses.dataclass(frozen=True)
class Findings:
    """What is known of a training file of n examples.

    Attributes:
        examples: the file's.
        labels: the L names.
        given: int [n], the examples' labels.
        probabilities: float [n, L], held out.
        suspicion: what they say.
        groups: int [n], equal for near-duplicates.
    """

    examples: Examples
    labels: Sequence[str]
    given: np.ndarray
    probabilities: np.ndarray
    suspicion: Suspicion
    groups: np.ndarray

    @property
    def suspects(self) -> np.ndarray:
        """int [m], the examples that count as another class than that of their label, the likeliest error first."""
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

    def has_several_labels(self, places: Sequence[int]) -> bool:
        """Says whether these examples differ in their labels."""
        return len(set(self.given[list(places)].tolist())) > 1

    def others(self, i: int) -> list[int]:
        """Returns the near-duplicates of an example, without itself."""
        return [k for k in self._members[int(self.groups[i])] if k != i]

    def text(self, i: int) -> str:
        """Returns the example's texts in one line."""
        return " | ".join(" ".join(each.split()) for each in texts_of(self.examples, i))


def write(directory: str, findings: Findings):
    """Writes three tables and the page.

        label_errors.tsv      rank, line, label, likely_label, probability, likely_probability, near_duplicates, text:
                              the examples that count as another class than that of their label
        near_duplicates.tsv   group, line, label, same_label, text
        held_out.tsv          line, label, and the probability of each label, of every example

    Raises:
        OSError: one cannot be written; it is as it was before.
    """
    tables = {
        ERRORS_FILE: (("rank", "line", "label", "likely_label", "probability", "likely_probability",
                       "near_duplicates", "text"), _error_rows(findings)),
        DUPLICATES_FILE: (("group", "line", "label", "same_label", "text"), _duplicate_rows(findings)),
        PROBABILITIES_FILE: (("line", "label", *findings.labels), _probability_rows(findings)),
    }  # fmt: skip
    for name, (header, rows) in tables.items():
        with atomic_open(os.path.join(directory, name)) as file:
            for row in (header, *rows):
                file.write("\t".join(" ".join(str(cell).split("\t")) for cell in row) + "\n")
    write_text(os.path.join(directory, PAGE_FILE), page(findings))


def summary(findings: Findings) -> list[str]:
    """Returns what was found in a few sentences."""
    n, suspicion, duplicates = len(findings.given), findings.suspicion, findings.duplicates()
    agree = float((findings.probabilities.argmax(1) == findings.given).mean())
    both = sum(map(findings.has_several_labels, duplicates))
    return [
        f"{findings.examples.path}: models that had not seen an example gave it its label for {percent(agree)} of "
        f"{n:,}.",
        f"Of {len(findings.suspects):,} another label is more probable than theirs, and no less so than it usually is "
        f"of the examples that have it. By that count {suspicion.estimate:,.0f} labels are wrong; the weaker the "
        "models, the more of these errors are their own.",
        f"{sum(map(len, duplicates)):,} examples are near-duplicates of others, in {len(duplicates):,} groups, of "
        f"which {both:,} have more than one label.",
    ]


def page(findings: Findings) -> str:
    """Returns one HTML file: the likeliest errors, duplicates with several labels, and who is taken for whom."""
    document = Page(f"Labels of {os.path.basename(findings.examples.path)}")
    for sentence in summary(findings):
        document.text(sentence)
    document.text(
        "A model may be wrong where the label is right: look at each before you change it. The tables beside this page "
        "have all of them."
    )
    suspects = findings.suspects
    rows = [_page_row(findings, i) for i in suspects[:_ON_PAGE]]
    columns = ("line", "label", "its probability", "likely", "its probability", "text")
    document.table(f"Likeliest errors: the first {len(rows):,} of {len(suspects):,}", rows, columns)
    two = [each for each in findings.duplicates() if findings.has_several_labels(each)]
    rows = [(findings.examples.lines[i], number, findings.labels[findings.given[i]], findings.text(i))
            for number, each in enumerate(two[:_ON_PAGE], 1) for i in each]  # fmt: skip
    columns = ("line", "group", "label", "text")
    document.table(f"Near-duplicates with several labels: {len(two):,} groups", rows, columns)
    columns = ("label", "likely", "examples", "of those with the label that count as one of the labels")
    document.table("Labelled so, and likely another", _pairs(findings), columns)
    return document.html()


def _page_row(findings, i):
    given, likely, p = findings.given[i], findings.suspicion.likely[i], findings.probabilities[i]
    sides = (cell for side in (given, likely) for cell in (findings.labels[side], f"{p[side]:.3f}"))
    return (findings.examples.lines[i], *sides, findings.text(i))


def change(findings: Findings, i: int) -> str:
    """Returns the label of an example and its likely one, with their probabilities."""
    given, likely = findings.given[i], findings.suspicion.likely[i]
    return (
        f"{findings.labels[given]} {findings.probabilities[i, given]:.3f} -> "
        f"{findings.labels[likely]} {findings.probabilities[i, likely]:.3f}"
    )


def _pairs(findings):
    """Returns rows: two labels, how often the first was given where the second is likely, and of how many."""
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
    for number, places in enumerate(findings.duplicates(), 1):
        same = "no" if findings.has_several_labels(places) else "yes"
        for i in places:
            label = findings.labels[findings.given[i]]
            yield number, findings.examples.lines[i], label, same, findings.text(i)


def _probability_rows(findings):
    for line, given, row in zip(findings.examples.lines, findings.given, findings.probabilities, strict=True):
        yield (line, findings.labels[given], *(f"{value:.6f}" for value in row))
