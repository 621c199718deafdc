"""Truncated texts and unknown tokens are counted while texts are tokenized, eagerly and in a graph."""

import tensorflow as tf

from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.token_counts import TokenCounts
from tests import tiny

TEXTS = ["the film", "the film is good .", "zebra film", ""]


def _count(texts, second=None, limit=6):
    counter = TokenCounter(WordPieceTokenizer(tiny.VOCAB))
    ids = [counter.tokenize(texts)] + ([] if second is None else [counter.tokenize(second)])
    counter.pack(*ids, max_seq_length=limit)
    return counter.counts()


def test_what_is_counted():
    assert TokenCounts(*_count(TEXTS).numpy()) == TokenCounts(texts=4, truncated=1, tokens=9, unknown=1)
    assert TokenCounts(*_count(TEXTS, TEXTS, 7).numpy()) == TokenCounts(texts=4, truncated=1, tokens=18, unknown=2)


def test_texts_and_pairs_of_which_more_than_half_is_unknown():
    texts = ["zebra zebra", "zebra", "zebra film", "film", ""]
    assert TokenCounts(*_count(texts).numpy()) == TokenCounts(5, 0, 6, 4, unknown_texts=2)
    pairs = _count(texts, ["film film", "film", "zebra", "the film", "zebra"], 9)
    assert TokenCounts(*pairs.numpy()) == TokenCounts(5, 0, 13, 6, unknown_texts=2)  # the third and the last


def test_a_graph_counts_the_same():
    for texts in (TEXTS, []):
        counts = tf.function(_count, [tf.TensorSpec([None], tf.string)], autograph=False)(tf.constant(texts, tf.string))
        assert counts.numpy().tolist() == _count(tf.constant(texts, tf.string)).numpy().tolist()
    assert TokenCounts(*counts.numpy()) == TokenCounts()


def test_everything_else_is_the_tokenizers():
    tokenizer = WordPieceTokenizer(tiny.VOCAB)
    counter = TokenCounter(tokenizer)
    for one, other in zip(counter.tokenize_with_offsets(TEXTS), tokenizer.tokenize_with_offsets(TEXTS), strict=True):
        assert one.to_list() == other.to_list()
    assert TokenCounts(*counter.counts().numpy()) == (0, 0, 9, 1, 0) and counter.vocab == tokenizer.vocab
