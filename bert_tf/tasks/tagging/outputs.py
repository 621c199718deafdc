"""Prediction files of a tagger: columns for conlleval, and JSON with the spans of entities in the text."""

from collections.abc import Iterable, Sequence

from bert_tf.evaluation.entities import parse_entities, tags_of
from bert_tf.tasks.tagging.columns import TaggedExamples, write_columns
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

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
