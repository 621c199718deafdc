"""Sums of tasks that resume."""

from collections import Counter

import pytest

from bert_tf.utils.task_total import TaskTotal
from bert_tf.utils.workers import Workers


class _Tasks:
    def __init__(self, fails_at):
        self.fails_at, self.numbers = fails_at, []

    def count(self, number):
        self.numbers.append(number)
        if number == self.fails_at:
            raise KeyboardInterrupt
        return Counter(tasks=1, sum=number)


def _run(path, fails_at=None):
    total, tasks = TaskTotal(path), _Tasks(fails_at)
    for _ in total.run(Workers(1, lambda: tasks, ()), "count", ((number,) for number in range(5))):
        pass
    return total, tasks.numbers


def test_tasks_resume_after_the_last_one_that_was_added(tmp_path):
    path = str(tmp_path / "total.json")
    with pytest.raises(KeyboardInterrupt):
        _run(path, fails_at=3)
    assert (TaskTotal(path).total, TaskTotal(path).done) == (Counter(tasks=3, sum=3), 3)
    total, numbers = _run(path)
    assert numbers == [3, 4] and (total.total, total.done) == (Counter(tasks=5, sum=10), 5)
    assert _run(path)[1] == []
    total.restart()
    assert (total.total, total.done, total.is_complete) == (None, 0, False)


def test_a_total_of_no_tasks(tmp_path):
    total = TaskTotal(str(tmp_path / "total.json"))
    assert list(total.run(Workers(1, dict, ()), "count", [])) == []
    again = TaskTotal(str(tmp_path / "total.json"))
    assert again.is_complete and again.total is None
