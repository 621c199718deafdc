"""Pieces one below the other: there and back, filled up for products of integers, and answers that nothing changes."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.encoder import Encoder
from bert_tf.models.graph_forms import FLAT_ROWS, LAYER_NORM_KERNEL, ROW_PACKING, graph_forms
from bert_tf.models.row_packing import flatten, merge_heads, unflatten
from tests.harness import randomize
from tests.models.encoder_test import CONFIG


def _in_form(function, ranges=None):
    def computed(*inputs):
        with graph_forms(FLAT_ROWS, ranges=ranges):
            return function(*inputs)

    return tf.function(computed, autograph=False, reduce_retracing=True)


def test_pieces_of_a_batch_and_back():
    def there_and_back(ids):
        pieces, none = flatten(ids, [ids, None])
        assert none is None
        vectors = tf.one_hot(pieces, 6)
        return pieces, unflatten(vectors), unflatten(vectors, 2, 3), merge_heads(unflatten(vectors, 2, 3))

    ids = np.array([[0, 1, 2], [3, 4, 5]], np.int32)
    pieces, batch, heads, joined = _in_form(there_and_back)(ids)
    np.testing.assert_array_equal(pieces, range(6))
    np.testing.assert_array_equal(batch, np.eye(6).reshape(2, 3, 6))
    np.testing.assert_array_equal(heads, np.eye(6).reshape(2, 3, 2, 3))
    np.testing.assert_array_equal(joined, np.eye(6))


def test_elsewhere_all_stays_as_it_is():
    ids, x = tf.zeros([2, 3], tf.int32), tf.random.normal([2, 3, 8])
    same, none = flatten(ids, [ids, None])
    assert same is ids and none is None and unflatten(x) is x
    assert unflatten(x, 2, 4).shape == (2, 3, 2, 4) and merge_heads(unflatten(x, 2, 4)).shape == x.shape


def test_products_of_integers_have_few_numbers_of_rows():
    """Whatever the batch; and nothing of what fills it up comes back."""

    def both(ids):
        pieces = flatten(ids, [ids])[0]
        return pieces, unflatten(tf.cast(pieces, tf.float32)[:, tf.newaxis])

    call = _in_form(both, ranges={})
    for number in (1, 7, 8, 9, 16, 63, 64, 65, 127, 128, 129, 1000, 3000):
        ids = np.arange(1, number + 1, dtype=np.int32)[np.newaxis]
        pieces, again = call(tf.constant(ids))
        assert number <= len(pieces) < max(number * 1.13, number + 8) and len(pieces) % 8 == 0
        np.testing.assert_array_equal(again[..., 0], ids)
        assert not pieces[number:].numpy().any()
    assert len({len(call(tf.ones((1, n), tf.int32))[0]) for n in range(129, 513)}) == 16


@pytest.mark.parametrize("forms", [(), (ROW_PACKING,), (ROW_PACKING, LAYER_NORM_KERNEL)], ids=str)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"is_decoder": True},
        {"classifier_pooling": "mean", "norm_first": True},
        {"first_position": 2, "max_position_embeddings": 12, "type_vocab_size": 0},
    ],
    ids=str,
)
def test_an_encoder_answers_as_without(forms, changes):
    encoder = Encoder(dataclasses.replace(CONFIG, **changes))
    encoder.build()
    randomize(encoder)
    mask = (np.arange(10) < np.array([[10], [1], [3]])).astype(np.int32)
    ids = np.random.default_rng(0).integers(4, 30, mask.shape, np.int32)
    features = {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2 * mask}
    plain = encoder(features)
    with graph_forms(FLAT_ROWS, *forms):
        flat = encoder(features)
    np.testing.assert_allclose(flat["pooled_output"], plain["pooled_output"], atol=1e-5)
    for one, other in zip(_vectors(flat), _vectors(plain), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one[mask > 0], other[mask > 0], atol=1e-5)


def _vectors(outputs):
    return [outputs["sequence_output"], outputs["embedding_output"], *outputs["encoder_outputs"]]
