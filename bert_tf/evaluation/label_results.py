"""Results of each label of a model: examples, predictions, correct predictions, and labels without any of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bert_tf.utils.counts import number_of, word_for

_SHOWN = 6  # labels named in a sentence


class LabelResult(NamedTuple):
    """Counts of one label in an evaluation file.

    Attributes:
        examples: number of examples with the label; for entities, of true entities of the type.
        predicted: number of predictions of the label.
        correct: number of correct ones.
    """

    examples: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """Fraction of the predictions that are correct; 0 if there are none, as for `recall` and `f1`."""
        return self.correct / max(1, self.predicted)

    @property
    def recall(self) -> float:
        return self.correct / max(1, self.examples)

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(1, self.examples + self.predicted)


def label_results(labels: Sequence[str], *counts: Iterable[int]) -> dict[str, LabelResult]:
    """Returns {label: its result}.

    Args:
        labels: L names.
        counts: numbers of examples, predictions and correct predictions of each, int [L] each.
    """
    return {label: LabelResult(*map(int, each)) for label, each in zip(labels, zip(*counts, strict=True), strict=True)}


def describe_unpredicted(results: Mapping[str, LabelResult], file: str) -> list[str]:
    """Returns a sentence on the labels that are never predicted although the file has examples of them, or [].

    Args:
        results: results of an evaluation; {} if its outputs are not labels.
        file: name of the evaluated file.
    """
    never = {label: each.examples for label, each in results.items() if each.examples and not each.predicted}
    if not never:
        return []
    shown = _list(f"{label!r} ({number_of(never[label], 'example')})" for label in sorted(never, key=never.get)[::-1])
    are = word_for(len(never), "is", "are")
    return [f"{file} has examples of {number_of(len(never), 'label')} that {are} never predicted: {shown}."]


def describe_always_predicted(results: Mapping[str, LabelResult], file: str, count: int) -> list[str]:
    """Returns a sentence on the labels that are predicted for every example although some do not have them, or [].

    Args:
        results, file: as above; of a model that predicts any number of labels for an example.
        count: number of examples in the file.
    """
    always = {label: each.examples for label, each in results.items() if each.examples < each.predicted == count}
    if not always:
        return []
    shown = _list(f"{label!r} ({always[label]:,} of {count:,})" for label in sorted(always, key=always.get))
    labels, are = number_of(len(always), "label"), word_for(len(always), "is", "are")
    return [f"{labels} {are} predicted for every example of {file}, although not all have {_them(always)}: {shown}."]


def describe_missing(results: Mapping[str, LabelResult], file: str) -> list[str]:
    """Returns a sentence on the labels that the file has no examples of, or []; arguments as above."""
    missing = [label for label, each in results.items() if not each.examples]
    if not missing or len(missing) == len(results):
        return []
    labels, their = number_of(len(missing), "label"), word_for(len(missing), "its", "their")
    return [f"{file} has no examples of {labels}, so {their} quality is not measured: {_list(map(repr, missing))}."]


def _them(labels):
    return word_for(len(labels), "it", "them")


def _list(names):
    names = list(names)
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
