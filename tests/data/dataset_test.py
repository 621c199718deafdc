"""Batches of tokenized examples: what they hold, padded to which width."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import dataset
from bert_tf.data.dataset import EncodedDataset, build_batches
from bert_tf.pretraining.batches import Records
from tests.data.tfrecords_test import rows, written


def _three():
    """Three examples of 3, 5 and 2 tokens."""
    features = {
        "input_ids": np.array([2, 7, 3, 2, 8, 9, 6, 3, 2, 3], np.int32),
        "segment_ids": np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0], np.int32),
    }
    return EncodedDataset(features, np.array([0, 3, 8, 10]), {"label_ids": np.array([1, 0, 1], np.int32)})


def _drawn(batch):
    return {name: value.numpy().tolist() for name, value in batch.items()}


@pytest.mark.parametrize("longest, width", [(1, 8), (8, 8), (9, 16), (17, 20), (20, 20)])
def test_width_is_the_next_multiple_or_the_longest_allowed(longest, width):
    assert dataset.width_of(np.array([1, longest]), max_seq_length=20) == width


def test_targets_of_tokens_are_padded_as_their_feature_says():
    examples = _three()
    examples.features["tag_ids"], examples.pad_id = np.arange(10, dtype=np.int32), 5
    (batch,) = dataset.build_batches(examples, np.array([[2, 0, -1]]), max_seq_length=4, by_length=False)
    drawn = _drawn(batch)
    assert drawn["tag_ids"] == [[8, 9, -1, -1], [0, 1, 2, -1], [-1] * 4]
    assert drawn["input_ids"] == [[2, 3, 5, 5], [2, 7, 3, 5], [5] * 4]
    assert drawn["input_mask"] == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]]  # of a row of padding, one is looked at
    assert drawn["segment_ids"][2] == [0] * 4 and drawn["is_real_example"] == [1, 1, 0]
    assert drawn["label_ids"] == [1, 1, 0]


def test_batches_picture():
    (batch,) = dataset.build_batches(_three(), np.array([[1, 0]]), max_seq_length=6, width_step=2)
    assert _drawn(batch) == {
        "input_ids": [[2, 8, 9, 6, 3, 0], [2, 7, 3, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]],
        "label_ids": [0, 1],
        "is_real_example": [1.0, 1.0],
    }


def test_batches_have_their_longest_width_each_and_the_dtypes_of_the_schema():
    batches = dataset.build_batches(_three(), np.array([[2], [1]]), 6, width_step=2)
    assert [batch["input_ids"].shape[1] for batch in batches] == [2, 6]
    spec = dataset.build_batches(_three(), np.array([[2]]), 6).element_spec
    assert {n: s.dtype for n, s in spec.items()} == {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids", "label_ids"), tf.int32),
        "is_real_example": tf.float32,
    }


def test_targets_may_be_several_numbers_an_example():
    examples = _three()
    examples.targets = {"label_ids": np.array([[1, 0], [0, 0], [1, 1]], np.int32)}
    (batch,) = dataset.build_batches(examples, np.array([[2, 0]]), 8)
    assert batch["label_ids"].numpy().tolist() == [[1, 1], [1, 0]]


def test_the_fingerprint_depends_on_tokens_targets_and_order():
    def changed(name, i, value):
        examples = _three()
        {**examples.features, **examples.targets}[name][i] = value
        return examples.fingerprint()

    prints = [_three().fingerprint(), changed("input_ids", 1, 8), changed("segment_ids", 6, 0)]
    prints += [changed("label_ids", 0, 0)]
    assert len(set(prints)) == 4
    assert _three().fingerprint() == prints[0]


def _is_left_alone(dataset):
    return dataset.options().autotune.enabled is False


def test_datasets_are_read_without_autotuning(tmp_path):
    path = written(tmp_path / "rows.tfrecord", rows())
    found = Records.of([str(path)])
    assert _is_left_alone(found.batches(2, 0).dataset) and _is_left_alone(found.in_order(2, 1).map(lambda x: x).dataset)
    texts = EncodedDataset({"input_ids": np.array([2, 7, 3, 2, 3], np.int32)}, np.array([0, 3, 5]), {})
    assert _is_left_alone(build_batches(texts, np.array([[0, 1]]), 8))
