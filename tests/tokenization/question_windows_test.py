"""Questions with windows of their contexts: the rows of a template that is not BERT's, and where tokens came from."""

import pathlib

import pytest
import tensorflow as tf

from bert_tf.models import family_registry
from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.question_windows import encode_questions
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.window_sizes import check_question_lengths
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
QUESTIONS = InputTemplate(("[CLS]",), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]"), second_segment=0)


@pytest.mark.usefixtures("run_eagerly")
def test_rows_and_where_their_tokens_came_from():
    tokenizer = WordPieceTokenizer(tiny.VOCAB, template=QUESTIONS)
    laid = encode_questions(tokenizer, tf.constant(["is it"]), tf.constant(["the film is good"]), 9, 1, 2)
    rows = [[tiny.VOCAB[i] for i in row] for row in laid.packed["input_ids"].to_list()]
    around = ["[CLS]", "is", "it", "[SEP]", "[SEP]"]
    assert rows == [[*around, "the", "film", "[SEP]", "[CLS]"], [*around, "film", "is", "[SEP]", "[CLS]"],
                    [*around, "is", "good", "[SEP]", "[CLS]"]]  # fmt: skip
    assert laid.starts.to_list()[0] == [-1] * 5 + [0, 4, -1, -1]
    assert laid.ends.to_list()[2] == [-1] * 5 + [11, 16, -1, -1]
    assert not laid.packed["segment_ids"].flat_values.numpy().any()


@pytest.mark.usefixtures("run_eagerly")
@pytest.mark.parametrize("kind", ["byte_bpe", "unigram"])
def test_rows_of_other_tokenizers(kind):
    path = GOLDENS / kind
    family = family_registry.with_tokenizer(kind)
    tokenizer = read_tokenizer(path, family, family.template)
    context = "  The caf\u00e9 ``and''  the se\u0301a "
    laid = encode_questions(tokenizer, tf.constant(["the sea"]), tf.constant([context]), 18, 4, 3)
    template, tokens = tokenizer.template, tokenizer.tokenize([context]).to_list()[0]
    rows = laid.packed["input_ids"].to_list()
    assert len(rows) > 1
    question = tokenizer.tokenize(["the sea"]).to_list()[0][:3]
    between = [tokenizer.vocab.index(token) for token in template.between]
    covered = set()
    for row, starts, ends in zip(rows, laid.starts.to_list(), laid.ends.to_list(), strict=True):
        head = [tokenizer.vocab.index(template.before[0]), *question, *between]
        assert row[: len(head)] == head and starts[: len(head)] == [-1] * len(head) and starts[-1] == -1
        inside = row[len(head) : -1]
        assert any(inside == tokens[i : i + len(inside)] for i in range(len(tokens)))
        covered |= {n for a, b in zip(starts, ends, strict=True) if a >= 0 for n in range(a, b)}
    assert {i for i, char in enumerate(context) if char != " "} == covered  # every letter, and no space


def test_lengths_count_the_template():
    check_question_lengths(QUESTIONS, 8, 2, 1)
    with pytest.raises(ValueError, match=r"greater than `max_query_length` \+ 5, for the question, \[CLS\] .* 7 and 2"):
        check_question_lengths(QUESTIONS, 7, 2, 1)
    with pytest.raises(ValueError, match=r"`max_query_length` - 5 = 1, .* got 2"):
        check_question_lengths(QUESTIONS, 8, 2, 2)
