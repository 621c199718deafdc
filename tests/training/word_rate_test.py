"""The learning rate of the word embeddings: they move by their share, and nothing else changes."""

import numpy as np
import pytest

from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.training.word_rate import EmbeddingLrFactor, word_rate
from tests.training.layer_rates_test import one_step


def test_a_word_rate_says_what_it_does():
    assert EmbeddingLrFactor().is_default and not EmbeddingLrFactor().rules()
    assert EmbeddingLrFactor(0).describe(10) == "Word embeddings: frozen."
    assert EmbeddingLrFactor(0.5).describe(10) == "Word embeddings: learning rate times 0.5."


def test_random_word_embeddings_must_move():
    assert word_rate(1.0, is_random=True) is None
    assert word_rate(0.0, is_random=False) == EmbeddingLrFactor(0.0)
    with pytest.raises(ValueError, match="`embedding_lr_factor=0` requires `start_embeddings=neighbors` or"):
        word_rate(0.0, is_random=True)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [pytest.param(0.0, marks=pytest.mark.slow), 0.25])
def test_word_embeddings_move_by_their_share_and_nothing_else_changes(factor):
    before, plain, _, _ = one_step()
    start, moved, slots, _ = one_step(EmbeddingLrFactor(factor))
    np.testing.assert_array_equal(start[WORDS], before[WORDS])
    np.testing.assert_allclose(moved[WORDS] - before[WORDS], factor * (plain[WORDS] - before[WORDS]), atol=5e-8)
    assert any(WORDS in name for name in slots) == (factor > 0)
    for path in plain.keys() - {WORDS}:
        np.testing.assert_allclose(moved[path], plain[path], atol=1e-6, err_msg=path)
