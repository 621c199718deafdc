"""Strategies by name; those of several workers are in tests/training/multi_worker_test.py."""

import pytest

from bert_tf.training import strategies


def test_strategies_by_name():
    assert strategies.make_strategy("default").num_replicas_in_sync == 1
    with pytest.raises(
        ValueError, match=r"must be one of \('default', 'mirrored', 'multi_worker', 'tpu'\); got 'horovod'\."
    ):
        strategies.make_strategy("horovod")
