"""What a tagger answered beside what is right, as the page of a run and eval_predictions.tsv show it."""

import numpy as np

from bert_tf.analysis.judged import Shown
from bert_tf.analysis.taggings import Taggings
from bert_tf.tasks.tagging.columns import TaggedExamples
from bert_tf.tasks.tagging.rows import SentenceOrigin

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
