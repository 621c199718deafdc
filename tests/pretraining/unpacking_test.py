"""Packed rows come apart, and single examples become packed rows."""

import itertools

import numpy as np
import pytest

from bert_tf.data.features import FEATURES
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus import local_run
from bert_tf.pretraining.packing import pack_examples
from bert_tf.pretraining.unpacking import to_packed_rows, unpack_rows
from tests.pretraining.corpus import support

N, S, M = 40, 16, 4


def _distinct_rows(rng, masks=True, labels=True):
    """Rows of 3 to 16 tokens, all ids different, so that none can be mistaken for another."""
    lengths = rng.integers(3, S + 1, N)
    mask = np.arange(S) < lengths[:, None]
    rows = {"input_ids": np.where(mask, np.arange(1, N * S + 1).reshape(N, S), 0), "input_mask": mask.astype(np.int32)}
    rows["segment_ids"] = (np.arange(S) >= lengths[:, None] // 2) & mask
    if masks:
        chosen = np.sort([rng.permutation(length)[:M] if length >= M else [0, 1, 2, 99] for length in lengths], axis=1)
        weights = (chosen < 99) & (rng.random((N, M)) < 0.8)
        order = np.argsort(~weights, axis=1, kind="stable")
        weights = np.take_along_axis(weights, order, 1)
        rows["masked_lm_positions"] = np.take_along_axis(chosen, order, 1) * weights
        rows["masked_lm_ids"] = rng.integers(1000, 2000, (N, M)) * weights
        rows["masked_lm_weights"] = weights.astype(np.float32)
    if labels:
        rows["next_sentence_labels"] = rng.integers(0, 2, (N, 1))
    return {name: values.astype(FEATURES[name].dtype) for name, values in rows.items()}


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("labels", [True, False])
def test_what_was_packed_comes_out_again(masks, labels):
    rows = _distinct_rows(np.random.default_rng(0), masks, labels)
    packed = pack_examples(rows, 9, 3)
    assert len(packed["input_ids"]) < N
    out = unpack_rows(packed)
    assert out.keys() == rows.keys()
    assert all(out[name].dtype == rows[name].dtype for name in rows)
    order = np.argsort(out["input_ids"][:, 0])  # the examples stood in the order of their first ids
    for name in rows:
        values = out[name][order]
        np.testing.assert_array_equal(values[:, : rows[name].shape[1]], rows[name], err_msg=name)
        assert not values[:, rows[name].shape[1] :].any()


def test_a_row_of_one_example_is_a_packed_row():
    rows = _distinct_rows(np.random.default_rng(1))
    packed = {name: np.asarray(values) for name, values in to_packed_rows(rows).items()}
    alone = pack_examples(rows, M, 1)
    order = np.argsort(alone["input_ids"][:, 0])
    assert packed.keys() == alone.keys()
    for name, values in packed.items():
        np.testing.assert_array_equal(values, alone[name][order], err_msg=name)


@pytest.fixture(scope="module")
def both(corpus, tmp_path_factory):
    """The same examples, packed and not."""
    folder = tmp_path_factory.mktemp("both")
    made = {"dupe_factor": 1, "short_seq_prob": 0.9, "max_sentences_per_seq": 3}
    for packing in (False, True):
        local_run.create_pretraining_data(support.job(corpus, [folder / str(packing)], packing=packing, **made))
    return [Records.of([str(folder / str(packing))]) for packing in (False, True)]


def _all(batches):
    batches = list(batches)
    return {name: np.concatenate([batch[name].numpy() for batch in batches]) for name in batches[0]}


@pytest.mark.slow
def test_records_come_as_they_are_wanted(both):
    plain, packed = both
    out, rows = _all(packed.in_order(4, packed=False)), _all(plain.in_order(1))
    assert out.keys() == rows.keys() and len(rows["input_ids"]) - 3 <= len(out["input_ids"]) <= len(rows["input_ids"])

    def examples(rows):
        return {tuple(each) for each in np.hstack([rows[name] for name in sorted(rows)]).tolist()}

    assert examples(out) <= examples(rows)
    assert plain.in_order(2, packed=True).dataset.element_spec.keys() == packed.in_order(2).dataset.element_spec.keys()
    assert len(list(itertools.islice(packed.in_order(2, 3, packed=False), 9))) == 3
