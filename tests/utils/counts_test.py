"""Counts in messages."""

from bert_tf.utils.counts import number_of


def test_one_is_singular():
    assert [number_of(n, "line") for n in (0, 1, 2, 9224)] == ["0 lines", "1 line", "2 lines", "9,224 lines"]
