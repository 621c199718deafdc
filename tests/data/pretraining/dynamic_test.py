"""Masks that are drawn anew each epoch, with no records or with unmasked ones."""

import dataclasses

import numpy as np
import pytest

from bert_tf.data import records
from bert_tf.data.pretraining import dynamic
from bert_tf.data.pretraining import job as jobs
from bert_tf.data.pretraining.masking import Masking
from bert_tf.data.pretraining.pieces import Pieces
from tests.data.pretraining import support


@pytest.fixture
def unmasked(corpus, tmp_path):
    path = str(tmp_path / "unmasked.tfrecord")
    jobs.create_pretraining_data(support.job(corpus, [path], dynamic_masking=True, dupe_factor=1))
    return path


@pytest.fixture(scope="module")
def pieces():
    return Pieces.of(support.VOCAB)


def _take(dataset, number):
    return list(dataset.take(number).as_numpy_iterator())


def _unmasked(batch):
    """The ids as they were: those of the masked positions put back."""
    ids = batch["input_ids"].copy()
    row, column = np.nonzero(batch["masked_lm_weights"])
    ids[row, batch["masked_lm_positions"][row, column]] = batch["masked_lm_ids"][row, column]
    return ids


def test_records_without_masks_are_masked_anew_each_epoch(unmasked, pieces):
    assert "masked_lm_ids" not in records.describe(unmasked)
    number = sum(1 for _ in records.read([unmasked], batch_size=16, drop_remainder=True))
    batches = _take(dynamic.from_records([unmasked], 16, Masking(max_predictions=8), pieces, 1), 2 * number)
    first, second = batches[:number], batches[number:]
    for one, other in zip(first, second, strict=True):
        assert (_unmasked(one) == _unmasked(other)).all() and (one["input_ids"] != other["input_ids"]).any()
        tokens = one["input_mask"].sum(1)
        assert (one["masked_lm_weights"].sum(1) == np.minimum(8, np.maximum(1, np.round(0.15 * tokens)))).all()
    again = _take(dynamic.from_records([unmasked], 16, Masking(max_predictions=8), pieces, 1, first_epoch=1), number)
    for one, other in zip(second, again, strict=True):
        assert all((one[name] == other[name]).all() for name in one)  # a resumed run finds its masks again


def test_records_with_masks_are_refused(corpus, tmp_path, pieces):
    path = str(tmp_path / "masked.tfrecord")
    jobs.create_pretraining_data(support.job(corpus, [path], dupe_factor=1))
    with pytest.raises(ValueError, match="must have records without masks"):
        dynamic.from_records([path], 16, Masking(), pieces, 1)


@pytest.mark.parametrize(
    "options", [{}, {"packing": True, "sentence_objective": "sop"}, {"sentence_objective": "none"}]
)
def test_straight_from_text_an_epoch_has_the_examples_of_a_pass(corpus, tmp_path, options):
    path = str(tmp_path / "two_passes.tfrecord")
    job = dataclasses.replace(support.job(corpus, [path], dupe_factor=2, **options), work_dir=str(tmp_path))
    jobs.create_pretraining_data(job)
    (written,) = _take(records.read([path], batch_size=100_000), 1)
    with dynamic.from_text(job, 1) as dataset:
        made = _take(dataset, len(written["input_ids"]))
    assert [p.name for p in tmp_path.iterdir()] == ["two_passes.tfrecord"]
    assert set(made[0]) == set(written)
    name = ["input_ids", "masked_lm_positions"]
    rows = [tuple(np.concatenate([batch[n][0] for n in name]).tolist()) for batch in made]
    assert sorted(rows) == sorted(tuple(row.tolist()) for row in np.concatenate([written[n] for n in name], 1))


def test_batches_go_on_from_unit_to_unit(corpus):
    with dynamic.from_text(support.job(corpus, ["unused"], packing=True), 7) as dataset:
        shapes = [batch["input_ids"].shape for batch in _take(dataset, 60)]
    assert shapes == [(7, 48)] * 60
