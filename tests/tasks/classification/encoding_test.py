"""Labeled texts become tokenized examples."""

import numpy as np
import pytest

from bert_tf.data.windowed import Windowing
from bert_tf.tasks.classification import encoding
from bert_tf.tasks.classification.encoding import targets, tokenize_examples
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.tasks.support import labeled_texts


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(list(tiny.VOCAB))


def _rows(tokenized, name="input_ids"):
    return [r.tolist() for r in np.split(tokenized.features[name], tokenized.splits[1:-1])]


def _ids(*pieces):
    return [tiny.VOCAB.index(piece) for piece in pieces]


def test_one_text_picture(tokenizer):
    examples = labeled_texts(("The film.", None), ("good", None), labels=["b", "a"])
    tokenized = tokenize_examples(tokenizer, examples, 16, ["a", "b"])
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", ".", "[SEP]"), _ids("[CLS]", "good", "[SEP]")]
    assert tokenized.targets["label_ids"].tolist() == [1, 0] and tokenized.targets["label_ids"].dtype == np.int32
    assert len(tokenized) == 2 and tokenized.lengths.tolist() == [5, 3]


def test_two_texts_picture_cut_to_the_longest(tokenizer):
    tokenized = tokenize_examples(tokenizer, labeled_texts(("the film is good", "bad films")), 8)
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", "is", "[SEP]", "bad", "film", "[SEP]")]
    assert _rows(tokenized, "segment_ids") == [[0, 0, 0, 0, 0, 1, 1, 1]]
    assert tokenized.targets == {}


@pytest.mark.parametrize("windows", [None, Windowing(3)])
def test_rows_are_padded_with_the_vocabulary_s_own_padding(windows):
    tokenizer = WordPieceTokenizer([*tiny.VOCAB[1:], "[PAD]"])
    examples = labeled_texts(("the film", None), ("good", None))
    tokenized = tokenize_examples(tokenizer, examples, 6, windows=windows)
    inputs = tokenized.inputs(np.array([0, 1]), lambda lengths: 4)
    assert inputs["input_ids"].reshape(2, 4)[1, 3] == tokenizer.pad_id == len(tiny.VOCAB) - 1


def test_many_examples_are_tokenized_in_parts_of_which_nothing_shows(tokenizer, monkeypatch):
    examples = labeled_texts(*[(text, None) for text, _ in tiny.texts(25)])
    whole = tokenize_examples(tokenizer, examples, 16)
    monkeypatch.setattr(encoding, "_CHUNK", 10)
    assert tokenize_examples(tokenizer, examples, 16).fingerprint() == whole.fingerprint()


def test_a_label_that_training_did_not_see_names_file_line_and_remedy(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), labels=["a", "c"])
    with pytest.raises(ValueError, match=r"file\.tsv:3: the label must be one of .* the training data: \['a', 'b'\]; "
                       r"got 'c'; correct this line, check `label_column`"):  # fmt: skip
        tokenize_examples(tokenizer, examples, 16, ["a", "b"])


def test_several_labels_are_rows_of_zeros_and_ones(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), ("dull", None), labels=[("b", "a"), (), ("b",)])
    tokenized = tokenize_examples(tokenizer, examples, 16, ["a", "b", "c"], "multi_label")
    ids = tokenized.targets["label_ids"]
    assert ids.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]] and ids.dtype == np.int32
    with pytest.raises(ValueError, match=r"^file\.tsv:2: the label must be one of .* training data: \['a'\]; .*'b'"):
        targets(examples, ["a"], "multi_label")


def test_numbers_are_values(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), labels=[4.75, -1.0])
    values = tokenize_examples(tokenizer, examples, 16, None, "regression").targets["label_values"]
    assert values.tolist() == [4.75, -1.0] and values.dtype == np.float32


@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_without_labels_there_is_nothing_to_aim_at(problem):
    assert targets(labeled_texts(("good", None)), ["a"], problem) == {}


def test_through_windows_a_long_text_has_several_rows(tokenizer):
    examples = labeled_texts(("the film is a story of people", None), ("good", None), labels=["a", "b"])
    tokenized = tokenize_examples(tokenizer, examples, 6, ["a", "b"], windows=Windowing(3))
    assert len(tokenized) == 2 and tokenized.splits.tolist() == [0, 2, 3]
    assert _rows(tokenized.rows)[0] == _ids("[CLS]", "the", "film", "is", "a", "[SEP]")
    assert tokenized.targets["label_ids"].tolist() == [0, 1]
