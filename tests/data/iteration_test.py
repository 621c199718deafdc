"""Datasets that are gone through in training have no thread whose sleep their end would wait for."""

import numpy as np

from bert_tf.data.dataset import Tokenized, batches
from bert_tf.pretraining.records.batches import Records
from tests.data.records_test import rows, written


def _is_left_alone(dataset):
    return dataset.options().autotune.enabled is False


def test_no_dataset_is_adapted_while_it_is_read(tmp_path):
    path = written(tmp_path / "rows.tfrecord", rows())
    found = Records.of([str(path)])
    assert _is_left_alone(found.batches(2, 0).dataset) and _is_left_alone(found.in_order(2, 1).map(lambda x: x).dataset)
    texts = Tokenized({"input_ids": np.array([2, 7, 3, 2, 3], np.int32)}, np.array([0, 3, 5]), {})
    assert _is_left_alone(batches(texts, np.array([[0, 1]]), 8))
