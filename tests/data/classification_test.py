"""Labelled texts to tokenized examples, and a classifier's answers to files."""

import json

import numpy as np
import pytest

from bert_tf.data import classification as data
from bert_tf.data import tables
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import tiny


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(list(tiny.VOCAB))


def _examples(*rows, labels=None):
    text_b = [b for _, b in rows] if rows[0][1] is not None else None
    ids = [str(i) for i in range(len(rows))]
    return tables.Examples(ids, [a for a, _ in rows], text_b, labels, "file.tsv", [i + 2 for i in range(len(rows))])


def _rows(tokenized, name="input_ids"):
    return [r.tolist() for r in np.split(tokenized.pieces[name], tokenized.splits[1:-1])]


def _ids(*pieces):
    return [tiny.VOCAB.index(piece) for piece in pieces]


def test_one_text_picture(tokenizer):
    examples = _examples(("The film.", None), ("good", None), labels=["b", "a"])
    tokenized = data.tokenize_examples(tokenizer, examples, 16, ["a", "b"])
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", ".", "[SEP]"), _ids("[CLS]", "good", "[SEP]")]
    assert tokenized.targets["label_ids"].tolist() == [1, 0] and tokenized.targets["label_ids"].dtype == np.int32
    assert len(tokenized) == 2 and tokenized.lengths.tolist() == [5, 3]


def test_two_texts_picture_cut_to_the_longest(tokenizer):
    tokenized = data.tokenize_examples(tokenizer, _examples(("the film is good", "bad films")), 8)
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", "is", "[SEP]", "bad", "film", "[SEP]")]
    assert _rows(tokenized, "segment_ids") == [[0, 0, 0, 0, 0, 1, 1, 1]]
    assert tokenized.targets == {}


def test_many_examples_are_tokenized_in_parts_of_which_nothing_shows(tokenizer, monkeypatch):
    examples = _examples(*[(text, None) for text, _ in tiny.texts(25)])
    whole = data.tokenize_examples(tokenizer, examples, 16)
    monkeypatch.setattr(data, "_CHUNK", 10)
    assert data.tokenize_examples(tokenizer, examples, 16).fingerprint() == whole.fingerprint()


def test_a_label_that_training_did_not_see_names_file_line_and_remedy(tokenizer):
    examples = _examples(("good", None), ("bad", None), labels=["a", "c"])
    with pytest.raises(ValueError, match=r"^file\.tsv:3: the label must be one that training saw: \['a', 'b'\]\. "
                       r"Received: 'c'; correct this line, check --label_column"):  # fmt: skip
        data.tokenize_examples(tokenizer, examples, 16, ["a", "b"])


def test_predictions_in_order_with_the_texts_and_the_fields_of_an_answer(tmp_path):
    probabilities = np.array([[0.25, 0.75], [0.5, 0.5]])
    data.write_predictions(tmp_path, _examples(("gut\u2028so", None), ("b\n", None)), probabilities, ["no", "yes"])
    assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n0.5\t0.5\n"
    lines = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").split("\n")
    assert [list(json.loads(line).items()) for line in lines[:-1]] == [
        [("id", "0"), ("text", "gut\u2028so"), ("label", "yes"), ("probabilities", [0.25, 0.75]),
         ("labels", ["no", "yes"])],
        [("id", "1"), ("text", "b\n"), ("label", "no"), ("probabilities", [0.5, 0.5]), ("labels", ["no", "yes"])],
    ]  # fmt: skip
    assert lines[-1] == ""


def test_predictions_of_pairs(tmp_path):
    data.write_predictions(tmp_path, _examples(("a", "")), np.array([[1.0]]), ["x"])
    assert list(json.loads((tmp_path / "predictions.jsonl").read_text())) == [
        "id", "text_a", "text_b", "label", "probabilities", "labels"]  # fmt: skip


@pytest.mark.parametrize(
    "task, folder, files, message",
    [
        (None, "glue", {}, "--data_dir must come with --task_name. Received --data_dir=glue alone."),
        ("mrpc", None, {}, "--task_name must come with --data_dir. Received --task_name=mrpc alone."),
        ("mrpc", "glue", {"train": "t.tsv"}, "Examples must come from --task_name or from files."),
        ("nope", "glue", {}, "--task_name must be one of ['cola', 'mrpc', 'sst-2']. Received: 'nope'"),
    ],
)
def test_sources_that_contradict_themselves(task, folder, files, message):
    with pytest.raises(ValueError) as error:
        data.make_source(task, folder, files)
    assert str(error.value).startswith(message)


def test_a_source_without_the_file_that_is_asked_for():
    with pytest.raises(ValueError, match=r"--do_predict must have examples\. Received no --predict_file, and no"):
        data.make_source(None, None, {"train": "t.tsv"}).read(["test"])


def test_labels_are_the_task_s_or_those_of_training_or_those_of_the_trained_model():
    files, glue = data.make_source(None, None, {}), data.make_source("mrpc", "glue", {})
    train = _examples(("x", None), ("y", None), ("z", None), labels=["10", "9", "10"])
    assert files.labels({"train": train}, ["a"]) == ["10", "9"]  # sorted as strings
    assert files.labels({}, ["a", "b"]) == ["a", "b"]
    assert glue.labels({}) == ["0", "1"]
    with pytest.raises(ValueError, match=r"must have a trained model\. Received one without labels\.txt; train it"):
        files.labels({})


def test_metrics_are_the_official_ones_of_a_task():
    assert data.make_source("cola", "glue", {}).metrics == ("matthews",)
    assert data.make_source(None, None, {}).metrics is None
