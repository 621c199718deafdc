"""The work directory of a job, and the sums of tasks in it."""

import os
import stat

import pytest

from bert_tf.utils.work_folder import WorkFolder


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
