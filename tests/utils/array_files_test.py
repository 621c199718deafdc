"""Arrays written in parts: as np.save writes them, whole or not at all, with errors that name the file."""

import os

import numpy as np
import pytest

from bert_tf.utils.array_files import open_array, save_array


def test_parts_become_one_array(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    with open_array(str(tmp_path), "parts", array.dtype, array.shape) as write:
        write(array[:1])
        assert os.path.exists(tmp_path / "parts.npy") is False
        write(array[::-1][:3][::-1])  # not contiguous
    save_array(str(tmp_path), "whole", array)
    np.save(tmp_path / "numpy.npy", array)
    written = {(tmp_path / f"{name}.npy").read_bytes() for name in ("parts", "whole", "numpy")}
    assert len(written) == 1 and len(os.listdir(tmp_path)) == 3


def test_an_array_that_is_not_finished_is_not_there(tmp_path):
    with pytest.raises(KeyError), open_array(str(tmp_path), "a", np.dtype(np.int64), (2,)) as write:
        write(np.zeros(1, np.int64))
        raise KeyError
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError, match="none/a.npy"):
        save_array(str(tmp_path / "none"), "a", np.zeros(2))
