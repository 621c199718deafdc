"""Examples straight from text, other ones in each epoch."""

import dataclasses

import numpy as np
import pytest

from bert_tf.data import records
from bert_tf.pretraining.corpus import job as jobs
from bert_tf.pretraining.corpus.from_text import from_text
from tests.pretraining.corpus import support


def _take(dataset, number):
    return list(dataset.take(number).as_numpy_iterator())


@pytest.mark.parametrize(
    "options",
    [
        {"masking": "phrase", "phrase_file": "phrases.list"},
        {"packing": True, "sentence_objective": "sop", "masking": "ngram"},
        pytest.param(
            {"sentence_objective": "none", "mask_token_prob": 0.5, "random_token_prob": 0.5}, marks=pytest.mark.slow
        ),
    ],
)
def test_straight_from_text_an_epoch_has_the_examples_of_a_pass(corpus, tmp_path, options):
    if "phrase_file" in options:
        options = options | {"phrase_file": str(corpus / options["phrase_file"])}
    path = str(tmp_path / "two_passes.tfrecord")
    job = dataclasses.replace(support.job(corpus, [path], dupe_factor=2, **options), work_dir=str(tmp_path))
    jobs.create_pretraining_data(job)
    (written,) = _take(records.read_records([path], batch_size=100_000), 1)
    before = sorted(tmp_path.iterdir())
    with from_text(job, 1) as dataset:
        assert dataset.options().autotune.enabled is False  # or its end would wait for a thread that sleeps
        made = _take(dataset, len(written["input_ids"]))
    assert sorted(tmp_path.iterdir()) == before
    assert set(made[0]) == set(written)
    name = ["input_ids", "masked_lm_positions"]
    rows = [tuple(np.concatenate([batch[n][0] for n in name]).tolist()) for batch in made]
    assert sorted(rows) == sorted(tuple(row.tolist()) for row in np.concatenate([written[n] for n in name], 1))


def test_batches_go_on_from_unit_to_unit(corpus):
    with from_text(support.job(corpus, ["unused"], packing=True), 7) as dataset:
        shapes = [batch["input_ids"].shape for batch in _take(dataset, 60)]
    assert shapes == [(7, 48)] * 60
