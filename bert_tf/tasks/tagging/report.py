"""Sentences, tags and predictions for the checks before a run and for its report."""

import numpy as np

from bert_tf.evaluation.entities import EntitySpan
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.error_reports.tagging import TaggingReport
from bert_tf.tasks.tagging.alignment import answered_entities
from bert_tf.tasks.tagging.columns import TaggedExamples

_REMARKS = {
    **dict.fromkeys(("f1", "precision", "recall"), "micro average: of all entities, whatever their type"),
    "accuracy": "the fraction of words with the correct tag",
}


def tagging_report(
    examples: TaggedExamples, given: list[list[str]], chances: list[list[float]], types: list[str]
) -> TaggingReport:
    """Returns the report of n sentences with true and predicted tags, and the probabilities of the latter.

    Args:
        examples: the sentences.
        given, chances: the predicted tag of each word, and its probability.
        types: the entity types of the model.
    """
    counts = np.array(list(map(len, examples.words)))
    texts = {"text": sentence_texts(examples)}
    shown = DisplayedExamples(examples.path, examples.ids, examples.lines, texts, counts, "words")
    tags = {"words": examples.words, "gold": examples.tags, "given": given, "chances": chances, "types": types}
    return TaggingReport(examples=shown, remarks=_REMARKS, **tags, entities=both_entities(examples, given))


def both_entities(
    examples: TaggedExamples, given: list[list[str]]
) -> tuple[list[list[EntitySpan]], list[list[EntitySpan]]] | None:
    """Returns the true and the predicted entities of texts with character spans, as characters; otherwise None."""
    if examples.entities is None:
        return None
    answers = zip(examples.texts, given, strict=True)
    return examples.entities, [answered_entities(text, tags, examples.boundaries) for text, tags in answers]


def sentence_texts(examples: TaggedExamples) -> list[str]:
    """Returns the text of each sentence: its words, joined by spaces, if the file has none."""
    return examples.texts or list(map(" ".join, examples.words))
