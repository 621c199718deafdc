"""Small files that failed elsewhere, as they are kept beside the checkout: SQuAD 2, words without pieces, CSV."""

import numpy as np
import pytest

from bert_tf.data.tables import read_table
from bert_tf.evaluation.squad_files import read_references
from bert_tf.tasks.base import SplitPredictions
from bert_tf.tasks.question_answering.data import read_squad
from bert_tf.tasks.tagging.columns import read_columns
from bert_tf.tasks.tagging.encoding import encode_sentences
from bert_tf.tasks.tagging.task import TaggingTask, list_tags
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny


@pytest.mark.parametrize(
    "name, golds",
    [
        ("ok.json", {"p": ["40 m"], "q": [], "r": ["in the north"]}),
        ("noanswers_key.json", {"p": ["40 m"], "q": []}),
        ("int_id.json", {"7": ["40 m"]}),
    ],
)
def test_squad_is_read_checked_and_scored_alike(shared_cases, name, golds):
    path = shared_cases / "squad_v2" / name
    examples = read_squad(path, with_answers=True)
    assert {i: [text for text, _ in each] for i, each in zip(examples.ids, examples.answers, strict=True)} == golds
    assert examples.golds == read_references(path) and examples.golds.texts == golds
    assert examples.is_impossible == [not each for each in golds.values()]


@pytest.mark.parametrize(
    "name, message",
    [
        ("empty_not_marked.json", r"\(id 'q'\): a question must either have an answer, or be marked"),
        ("no_answers_at_all.json", r"\(id 'p'\): .* in which 'answers' is a list; got the keys \['id'"),
    ],
)
def test_squad_that_cannot_be_trained_on(shared_cases, name, message):
    with pytest.raises(ValueError, match=message):
        read_squad(shared_cases / "squad_v2" / name, with_answers=True)


def test_both_files_tell_one_entity_around_a_word_without_pieces(shared_cases):
    folder = shared_cases / "ner_piece_less_word"
    labels = list_tags(read_columns(folder / "pl_train.txt").tags)
    examples = read_columns(folder / "pl_test.txt")
    tokenizer = WordPieceTokenizer([*tiny.VOCAB, "jon", "holt", "here"])
    rows = encode_sentences(tokenizer, examples, labels, 16, 8, with_tags=True)
    outputs = {"tag": np.full((1, 16), labels.index("O")), "probability": np.ones((1, 16), np.float32)}
    tags = rows.features["tag_ids"]
    outputs["tag"][0, : len(tags)] = np.where(tags < 0, labels.index("O"), tags)  # a model that is right
    task = TaggingTask(tiny.config(), labels)
    (written,), (found,) = task.decode(SplitPredictions("test", examples, rows, outputs, None))
    assert written == ["B-PER", "I-PER", "I-PER", "O", "O"] == examples.tags[0]
    assert [(each["text"], each["type"]) for each in found] == [("Jon \u200b Holt", "PER")]
    assert task.metrics(outputs, rows)["f1"] == 1.0


@pytest.mark.parametrize(
    "name, rows",
    [
        ("crlf.csv", [("line one\r\nline two", "good"), ('she said "no"', "poor"), ("plain", "good")]),
        ("crlf.tsv", [("a good one", "good"), ("a poor one", "poor")]),
        ("pandas.csv", [("a good one", "good"), ("a poor one", "poor")]),
    ],
)
def test_tables_of_other_writers(shared_cases, name, rows):
    got = read_table(shared_cases / "csv_dialects" / name, label_column="label")
    assert list(zip(got.text_a, got.labels, strict=True)) == rows


@pytest.mark.parametrize(
    "name, message",
    [
        ("cr_only.csv", r":1: lines must end in a line feed .* return \(CR\) after 'text,label'; convert the f"),
        ("backslash.csv", r":2: the row that begins here is not valid CSV \(RFC 4180\): .* double the quotes inside"),
        ("blankmid.csv", r":3: a row must have at least 2 columns"),
        ("space.csv", r":1: missing column 'label' .*Found the columns \['text', ' label'\]"),
    ],
)
def test_tables_that_are_refused_by_what_is_wrong(shared_cases, name, message):
    with pytest.raises(ValueError, match=message):
        read_table(shared_cases / "csv_dialects" / name, label_column="label")
