"""The rate of the word embeddings: they stay, or move by their share; all else moves as it would."""

import numpy as np
import pytest

from bert_tf.training.learning_rate import WordRate
from tests.training.layer_rates_test import one_step

WORDS = "bert/embeddings/word_embeddings"


@pytest.mark.parametrize("factor", [pytest.param(0.0, marks=pytest.mark.slow), 0.25])
def test_word_embeddings_move_by_their_share_and_nothing_else_changes(factor):
    before, plain, _, _ = one_step()
    start, moved, slots, _ = one_step(WordRate(factor))
    np.testing.assert_array_equal(start[WORDS], before[WORDS])
    np.testing.assert_allclose(moved[WORDS] - before[WORDS], factor * (plain[WORDS] - before[WORDS]), atol=5e-8)
    assert any(WORDS in name for name in slots) == (factor > 0)
    for path in plain.keys() - {WORDS}:
        np.testing.assert_allclose(moved[path], plain[path], atol=1e-6, err_msg=path)


def test_what_a_run_says_of_it():
    assert WordRate().is_default and not WordRate().rules()
    assert WordRate(0).describe(10) == "Word embeddings: they stay as they begin."
    assert WordRate(0.5).describe(10) == "Word embeddings: rates times 0.5."
    assert WordRate(0.5).identity() == {"embedding_lr_factor": 0.5}
