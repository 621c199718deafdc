"""Arrays written in parts: as np.save writes them, whole or not at all, with errors that name the file."""

import os

import numpy as np
import pytest

from bert_tf.utils.array_files import map_array, open_array, save_array


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


def test_untrusted_arrays_are_mapped_only_as_they_are_written(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    save_array(str(tmp_path), "a", array)
    mapped = map_array(str(tmp_path), "a", "float32", axes=2)
    assert isinstance(mapped, np.memmap) and not mapped.flags.writeable and mapped.tolist() == array.tolist()
    np.save(tmp_path / "none.npy", np.zeros(0, np.int64))
    assert map_array(str(tmp_path), "none", "int64").shape == (0,)
    good = (tmp_path / "a.npy").read_bytes()
    objects, archive = tmp_path / "objects.npy", tmp_path / "archive.npz"
    np.save(objects, np.array([{}], object), allow_pickle=True)
    np.savez(archive, a=array)
    for data, message in (
        (b"", "not an array"), (good[:40], "not an array"), (objects.read_bytes(), "not an array"),
        (archive.read_bytes(), "not an array"), (good.replace(b"False", b"True "), "not an array"),
        (good.replace(b"(4, 3)", b"(4,-3)"), "not an array"), (good.replace(b"'<f4'", b"'<f8'"), "type <f8 and shape"),
        (good.replace(b"(4, 3), }", b"(12,), } "), "type <f4 and shape"), (good[:-1], "has 175 bytes, but"),
        (good + b"0", "has 177 bytes, but"), (good.replace(b"(4, 3), }", b"(9, 3), }"), "has 176 bytes, but"),
    ):  # fmt: skip
        (tmp_path / "b.npy").write_bytes(data)
        with pytest.raises(ValueError, match=f"b.npy .*{message}"):
            map_array(str(tmp_path), "b", "float32", axes=2)
    with pytest.raises(FileNotFoundError):
        map_array(str(tmp_path), "c", "float32")
