"""Interpreters of LiteRT are lent to one caller for each core, the one that uses all cores first."""

import contextlib

from bert_tf.lite.runner_pool import RunnerPool


def test_one_interpreter_for_each_core():
    pool = RunnerPool(lambda threads: [threads], 3)
    for _ in range(2):  # what was given back is lent again, in the same order
        with contextlib.ExitStack() as lent:
            assert [lent.enter_context(pool.idle()) for _ in range(4)] == [[3], [1], [1], None]
    with pool.idle() as first, pool.idle() as second:
        assert (first, second) == ([3], [1]) and first is not second


def test_an_interpreter_comes_back_after_an_error():
    pool = RunnerPool(lambda threads: [threads], 1)
    with contextlib.suppress(ValueError), pool.idle():
        raise ValueError
    with pool.idle() as runner:
        assert runner == [1]
