"""Weights that a new model begins from: vectors of neighbors, sinusoidal positions, the head's bias."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.pretraining.start_weights import start_weights
from tests import tiny

PATH = "bert/embeddings/word_embeddings"
CONFIG = tiny.config(embedding_size=4, initializer_range=0.05, vocab_size=len(tiny.VOCAB) + 3)
TOKENIZER = types.SimpleNamespace(vocab=tiny.VOCAB, special_tokens={str(n): p for n, p in enumerate(tiny.VOCAB[:5])})


class Rows:
    """Stands for `Records`: 40 rows of [CLS], words, [SEP] and padding."""

    paths, max_seq_length = ["rows"], 16

    def __init__(self, count=40):
        words = np.random.default_rng(0).integers(5, len(tiny.VOCAB) - 1, (count, 16))  # the last piece is not there
        words[:, 0], words[:, 12], words[:, 13:] = 2, 3, 0
        self.rows = words.astype(np.int32)

    def in_order(self, batch_size):
        return ({"input_ids": tf.constant(part)} for part in np.split(self.rows, len(self.rows) // batch_size or 1)
                if len(part) == batch_size)  # fmt: skip


MODEL = types.SimpleNamespace(config=CONFIG, tokenizer=TOKENIZER)


def _weights(embeddings="neighbors", positions="random", count=40):
    return start_weights(embeddings, positions, Rows(count), MODEL, seed=3)


def test_pieces_that_the_records_have_begin_with_their_neighbours():
    give = _weights()
    given = give()
    table, again = given[PATH], give()[PATH]
    assert table.shape == (CONFIG.vocab_size, 4) and table.dtype == np.float32
    np.testing.assert_array_equal(table, again)
    lengths = np.sqrt(np.mean(table**2, 1)) / 0.05
    known = np.arange(5, len(tiny.VOCAB) - 1)
    np.testing.assert_allclose(lengths[known], 1, rtol=1e-4)
    others = np.setdiff1d(np.arange(CONFIG.vocab_size), known)
    assert np.all(np.abs(lengths[others] - 1) > 1e-4) and np.all(lengths[others] < 4)


def test_the_bias_of_the_head_begins_as_how_common_pieces_are():
    given = _weights()()
    counts = np.bincount(Rows().rows.reshape(-1), minlength=CONFIG.vocab_size)
    counts[:5] = 0  # special pieces are never masked
    for path in ("cls/predictions/output_bias", "generator/cls/predictions/output_bias"):
        np.testing.assert_allclose(np.exp(given[path]), (counts + 1) / (counts + 1).sum(), rtol=1e-5)


def test_random_ones_are_left_to_the_model():
    assert _weights("random") is None


def test_positions_begin_as_waves_that_tell_distances():
    ((path, table),) = _weights("random", "sinusoidal")().items()
    assert path == "bert/embeddings/position_embeddings" and table.dtype == np.float32
    assert table.shape == (CONFIG.max_position_embeddings, 4)
    np.testing.assert_allclose(np.sqrt(np.mean(table**2, 1)), 0.05, rtol=1e-5)
    products = table @ table.T
    for distance in (1, 3):  # depend on nothing else
        np.testing.assert_allclose(np.diagonal(products, distance), products[0, distance], rtol=1e-4)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="requires at least 8 sequences, but there are fewer in rows. Use more text"):
        _weights(count=4)()
