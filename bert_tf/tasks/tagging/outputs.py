"""Outputs of a tagger: prediction files, and the report of a run."""

from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.evaluation.entities import EntitySpan, parse_entities, tags_of
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.error_reports.tagging import TaggingReport
from bert_tf.tasks.tagging.alignment import answered_entities
from bert_tf.tasks.tagging.columns import TaggedExamples, write_columns
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Files ===
# Prediction files of a tagger: columns for conlleval, and JSON with the spans of entities in the text.


EVAL_FILE, COLUMNS_FILE, ENTITIES_FILE = "eval_predictions.txt", "predictions.txt", "predictions.jsonl"


def write_tags(path: str, examples: TaggedExamples, *columns: Sequence[Sequence[str]], scheme: str):
    """Writes one line per word with its tags, for conlleval.

    White space inside a word, which is possible in .jsonl, becomes "_".

    Args:
        path: the file.
        examples: the n sentences.
        columns: tags of all sentences, in IOB2; one argument per output column.
        scheme: tagging scheme to write them in.
    """
    sentences = []
    for words, *several in zip(examples.words, *columns, strict=True):
        tags = [tags_of(parse_entities(each), len(each), scheme) for each in several]
        sentences.append(list(zip(map(_in_one, words), *tags, strict=True)))
    write_columns(path, sentences)


def write_entities(path: str, examples: TaggedExamples, answers: Iterable[list[dict]]):
    """Writes one JSON object per line and sentence, in order: `id`, `text` and `entities`.

    Args:
        path: the file.
        examples: the n sentences; without a text in the file, it is their words, joined by spaces.
        answers: the entities of each, {"text", "type", "start", "end", "score"}.
    """
    with atomic_open(path) as file:
        for i, (name, each) in enumerate(zip(examples.ids, answers, strict=True)):
            line = {"id": name, "text": examples.text_of(i)[0], "entities": each}
            file.write(json_text(line, ensure_ascii=False) + "\n")


def _in_one(word):
    return "_".join(word.split()) if any(map(str.isspace, word)) else word


# === Report ===
# Sentences, tags and predictions for the checks before a run and for its report.


_REMARKS = {
    **dict.fromkeys(("f1", "precision", "recall"), "micro average: of all entities, whatever their type"),
    "accuracy": "the share of words whose tag is right",
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
