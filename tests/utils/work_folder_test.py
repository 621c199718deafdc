"""The work directory of a job, and the sums of tasks in it."""

import os
import stat
from collections import Counter

import pytest

from bert_tf.utils.work_folder import TaskTotal, WorkFolder
from bert_tf.utils.workers import Workers


def _folder(path, seed=0, overwrite=False, private=False):
    return WorkFolder(str(path), {"seed": seed}, lambda name: name.startswith("part"), "Remove it.", overwrite, private)


def _interrupt(path, part="part-0"):
    with pytest.raises(KeyboardInterrupt), _folder(path) as folder:
        os.mkdir(os.path.join(folder.path, part))
        raise KeyboardInterrupt


def test_nobody_else_can_read_it_and_nothing_of_it_stays(tmp_path):
    with _folder(tmp_path / "work", private=True) as folder:
        assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
        os.mkdir(os.path.join(folder.path, "part-0"))
    assert os.listdir(tmp_path) == []


def test_the_same_job_finds_its_parts_and_nothing_half_made(tmp_path):
    _interrupt(tmp_path / "work")
    (tmp_path / "work" / "half").mkdir()
    (tmp_path / "work" / "half" / "keys.npy").touch()
    with _folder(tmp_path / "work") as folder:
        assert sorted(os.listdir(folder.path)) == ["manifest.json", "part-0"]


def test_an_interrupted_job_without_parts_leaves_nothing(tmp_path):
    _interrupt(tmp_path / "work", "half")
    assert os.listdir(tmp_path) == []


def test_another_job_is_refused_unless_it_discards_the_parts(tmp_path):
    _interrupt(tmp_path / "work")
    with pytest.raises(ValueError, match=r"work.manifest.json\). Changed: seed: 0 before, 1 now. Remove it."):
        _folder(tmp_path / "work", seed=1).__enter__()
    with _folder(tmp_path / "work", seed=1, overwrite=True) as folder:
        assert os.listdir(folder.path) == ["manifest.json"]


def test_parts_that_are_of_no_use_are_discarded(tmp_path):
    with pytest.raises(ValueError, match="bad text"), _folder(tmp_path / "work") as folder:
        os.mkdir(os.path.join(folder.path, "part-0"))
        folder.discard()
        raise ValueError("bad text")
    assert os.listdir(tmp_path) == []


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
