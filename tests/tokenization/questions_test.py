"""Rows of questions with a template that is not BERT's; tests/tasks/squad/rows_test.py draws BERT's."""

import pytest
import tensorflow as tf

from bert_tf.families import Template
from bert_tf.tokenization.questions import check_lengths, question_windows
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import tiny

STRANGE = Template(("[CLS]",), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]"), second_segment=0)


def test_rows_and_where_their_pieces_came_from():
    tokenizer = Tokenizer(tiny.VOCAB, template=STRANGE)
    laid = question_windows(tokenizer, tf.constant(["is it"]), tf.constant(["the film is good"]), 9, 1, 2)
    rows = [[tiny.VOCAB[i] for i in row] for row in laid.packed["input_ids"].to_list()]
    around = ["[CLS]", "is", "it", "[SEP]", "[SEP]"]
    assert rows == [[*around, "the", "film", "[SEP]", "[CLS]"], [*around, "film", "is", "[SEP]", "[CLS]"],
                    [*around, "is", "good", "[SEP]", "[CLS]"]]  # fmt: skip
    assert laid.starts.to_list()[0] == [-1] * 5 + [0, 4, -1, -1]
    assert laid.limits.to_list()[2] == [-1] * 5 + [11, 16, -1, -1]
    assert not laid.packed["segment_ids"].flat_values.numpy().any()


def test_lengths_count_the_template():
    check_lengths(STRANGE, 8, 2, 1)
    with pytest.raises(ValueError, match=r"greater than `max_query_length` \+ 5, for the question, \[CLS\] .* 7 and 2"):
        check_lengths(STRANGE, 7, 2, 1)
    with pytest.raises(ValueError, match=r"`max_query_length` - 5, what a row holds .*: 1 here. Received: 2"):
        check_lengths(STRANGE, 8, 2, 2)
