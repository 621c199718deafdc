"""Sentences and tags as they are looked at: before a run, and beside its answers on its page and in a table."""

import numpy as np

from bert_tf.data.checks.samples import Sample
from bert_tf.evaluation.error_reports.judged import Shown
from bert_tf.evaluation.error_reports.taggings import Taggings
from bert_tf.tasks.tagging.columns import TaggedExamples
from bert_tf.tasks.tagging.rows import SentenceOrigin

_FEWEST_WORDS = 8  # shorter sentences, such as headings and lines of results, recur
_REMARKS = {
    **dict.fromkeys(("f1", "precision", "recall"), "micro average: of all entities, whatever their type"),
    "accuracy": "the share of words whose tag is right",
}


def judged(
    examples: TaggedExamples, origin: SentenceOrigin, given: list[list[str]], chances: list[list[float]]
) -> Taggings:
    """Returns n sentences with right tags and those given, and the probability of each of these."""
    texts, counts = {"text": [" ".join(words) for words in examples.words]}, np.array(origin.counts)
    shown = Shown(examples.path, examples.ids, examples.lines, texts, counts, "words")
    return Taggings(examples=shown, remarks=_REMARKS, words=examples.words, gold=origin.tags, given=given,
                    chances=chances)  # fmt: skip


def sample_of(examples: TaggedExamples) -> Sample:
    """Returns what is checked of sentences; their labels are the types of their entities, one for each."""
    targets = types = None
    if examples.tags is not None:
        targets = list(map(tuple, examples.tags))
        types = [[tag[2:] for tag in tags if tag.startswith("B-")] for tags in examples.tags]
    texts = {"text": list(map(" ".join, examples.words))}
    called = {"label": "entity type", "target": "tags"}
    return Sample(examples.path, examples.where, texts, targets, types, **called, fewest_words=_FEWEST_WORDS)
