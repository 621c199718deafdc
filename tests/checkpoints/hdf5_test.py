"""Our reader of HDF5 gives what h5py gives of every kind of file that Keras makes."""

import h5py
import numpy as np
import pytest

from bert_tf.checkpoints.keras_hub import Hdf5File


def _check(path):
    expected = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            expected[name] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(add)
    ours = Hdf5File(path)
    assert ours.shapes == {name: np.shape(value) for name, value in expected.items()} and expected
    for name, value in expected.items():
        array = ours.read(name)
        np.testing.assert_array_equal(array, value)
        assert array.dtype == np.asarray(value).dtype


def test_groups_of_several_levels_and_numbers_of_every_type(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for n in range(600):  # more than one node of the tree of symbols holds
            file[f"layers/dense_{n}/vars/0"] = np.full((n % 4, 2), n, np.float32)
        for n, dtype in enumerate(["f2", "f8", ">f4", "i1", "i8", "u1", "u4", ">u2"]):
            file[f"vars/{n}"] = np.arange(6).reshape(2, 3).astype(dtype)
        file["vars/one"] = np.int64(-5)
    _check(tmp_path / "a.h5")


def test_descriptions_in_several_parts(tmp_path):
    """Attributes that came later lie in blocks of their own."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["layers/dense/vars/0"] = np.ones(3, np.float32)
    for n in range(30):
        with h5py.File(tmp_path / "a.h5", "a") as file:
            for name in ("layers/dense/vars", "layers/dense/vars/0"):
                file[name].attrs[f"a{n}"] = "x" * 20 * n
    _check(tmp_path / "a.h5")


@pytest.mark.parametrize("version", ["earliest", "v108", "latest"])
def test_the_headers_of_every_version(version, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver=version, track_order=True) as file:
        for n in range(8):
            file.create_dataset(f"layers/dense/vars/{n}", data=np.full((2, 3), n, np.float32))
    _check(tmp_path / "a.h5")


def test_a_group_with_an_index_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        for n in range(20):
            file[f"vars/{n}"] = np.ones(3, np.float32)
    with pytest.raises(ValueError, match=r"is not a complete HDF5 file.*an index of its links, which Keras does not"):
        Hdf5File(tmp_path / "a.h5")
