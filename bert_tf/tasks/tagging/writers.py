"""A tagger's answers as files: columns for conlleval, and JSON with the places of entities in the text."""

from collections.abc import Iterable, Sequence

from bert_tf.evaluation.entities import entities, tags_of
from bert_tf.tasks.tagging.columns import TaggedExamples, text_of, write_columns
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

EVAL_FILE, COLUMNS_FILE, ENTITIES_FILE = "eval_predictions.txt", "predictions.txt", "predictions.jsonl"


def write_tags(path: str, examples: TaggedExamples, *columns: Sequence[Sequence[str]], scheme: str):
    """Writes a line for each word: the word and its tags, as conlleval reads them.

    White space inside a word, which a .jsonl may have, becomes "_".

    Args:
        path: the file.
        examples: the n sentences.
        columns: tags of all sentences, in IOB2; several stand side by side.
        scheme: that they are written in.
    """
    rows = []
    for words, *several in zip(examples.words, *columns, strict=True):
        tags = [tags_of(entities(each), len(each), scheme) for each in several]
        rows.append(list(zip(map(_in_one, words), *tags, strict=True)))
    write_columns(path, rows)


def write_entities(path: str, examples: TaggedExamples, answers: Iterable[list[dict]]):
    """Writes one JSON object per line for each sentence, in order: `id`, `text` and `entities`.

    Args:
        path: the file.
        examples: the n sentences; a text is their words with a space between them.
        answers: the entities of each, {"text", "type", "start", "end", "score"}.
    """
    with atomic_open(path) as file:
        for name, words, each in zip(examples.ids, examples.words, answers, strict=True):
            line = {"id": name, "text": text_of(words)[0], "entities": each}
            file.write(json_text(line, ensure_ascii=False) + "\n")


def _in_one(word):
    return "_".join(word.split()) if any(map(str.isspace, word)) else word
