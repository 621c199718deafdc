"""The learning rate of the word embeddings; tests/training/layer_rates_test.py trains with it."""

import pytest

from bert_tf.training.word_rate import WordRate, word_rate


def test_a_word_rate_says_what_it_does():
    assert WordRate().is_default and not WordRate().rules()
    assert WordRate(0).describe(10) == "Word embeddings: frozen."
    assert WordRate(0.5).describe(10) == "Word embeddings: learning rate times 0.5."


def test_random_word_embeddings_must_move():
    assert word_rate(1.0, is_random=True) is None
    assert word_rate(0.0, is_random=False) == WordRate(0.0)
    with pytest.raises(ValueError, match="`embedding_lr_factor=0` requires `start_embeddings=neighbours` or"):
        word_rate(0.0, is_random=True)
