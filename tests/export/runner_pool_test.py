"""Interpreters of LiteRT are lent to one caller for each core; one who is alone gets the one that uses all threads."""

import contextlib

import numpy as np
import pytest

from bert_tf.lite.runner_pool import RunnerPool


class Runner:
    """An interpreter that notes what it is asked."""

    lengths, inputs = [8, 16], ("input_ids",)

    def __init__(self, threads):
        self.threads, self.asked = threads, []

    def __call__(self, features):
        assert features["input_ids"].dtype == np.int32
        self.asked.append(features["input_ids"].shape)


def lent(pool):
    """Returns the threads of the interpreters that callers get who ask one after another, None for those without."""
    with contextlib.ExitStack() as stack:
        runners = [stack.enter_context(pool.idle()) for _ in range(pool.size + 1)]
    return [runner and runner.threads for runner in runners]


@pytest.mark.parametrize(
    "cores, threads, expected",
    [
        (1, 1, [1, None]),
        (2, 2, [2, 1, None]),
        (2, 1, [1, 1, None]),
        (3, 3, [3, 1, 1, None]),
        (16, 16, [16, 4, 4, 4, None]),
        (16, 2, [2, 2, 2, 2, None]),
    ],
)
def test_one_interpreter_for_each_core_up_to_four(cores, threads, expected):
    pool = RunnerPool(Runner, cores, threads)
    assert lent(pool) == lent(pool) == expected  # what was given back is lent again, in the same order


def test_the_interpreter_of_all_threads_is_for_one_who_is_alone_or_whom_no_other_is_left_for():
    pool = RunnerPool(Runner, 3, 3)
    with contextlib.ExitStack() as stack:
        whole = contextlib.ExitStack()
        whole.enter_context(pool.idle())
        one = stack.enter_context(pool.idle())
        whole.close()  # it is idle again, and `one` is still in use
        assert one.threads == stack.enter_context(pool.idle()).threads == 1
        assert stack.enter_context(pool.idle()).threads == 3


def test_an_interpreter_comes_back_after_an_error():
    pool = RunnerPool(Runner, 1, 1)
    with contextlib.suppress(ValueError), pool.idle():
        raise ValueError
    with pool.idle() as runner:
        assert runner.threads == 1


def test_each_interpreter_computes_each_length_before_it_is_lent():
    made = []
    pool = RunnerPool(lambda threads: made.append(Runner(threads)) or made[-1], 2, 2)
    pool.prepare()
    assert [runner.asked for runner in made] == [[(1, 8), (1, 16)]] * 2
    pool.prepare([8])
    assert [runner.asked[2:] for runner in made] == [[(1, 8)]] * 2
