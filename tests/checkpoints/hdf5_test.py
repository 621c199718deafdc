"""Our reader of HDF5 gives what h5py gives of every kind of file that Keras makes."""

import json

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoints.hdf5 import Hdf5File
from bert_tf.checkpoints.keras_hub import tokenizer_of
from bert_tf.models.config import EncoderConfig
from tests.checkpoints.good_files import preset_tokenizer


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


def test_bfloat16_as_keras_writes_it(tmp_path):
    """HDF5 has no such type: two bytes without a meaning, and an attribute with the name."""
    layer = keras.layers.Dense(3, dtype="bfloat16")
    layer.build((None, 2))
    model = keras.Sequential([keras.Input((2,), dtype="bfloat16"), layer])
    model.save_weights(tmp_path / "a.weights.h5")
    ours = Hdf5File(tmp_path / "a.weights.h5")
    assert sorted(ours.shapes.values()) == [(2, 3), (3,)]
    kernel = next(name for name, shape in ours.shapes.items() if len(shape) == 2)
    assert ours.read(kernel).dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(ours.read(kernel), np.asarray(layer.kernel))
    with h5py.File(tmp_path / "a.weights.h5", "a") as file:
        del file[kernel].attrs["dtype"]
    with pytest.raises(ValueError, match="numbers of HDF5's class 5 with 2 bytes"):
        Hdf5File(tmp_path / "a.weights.h5").read(kernel)


def test_unknown_keys_of_a_preset_are_named(tmp_path, caplog):
    preset_tokenizer(tmp_path)
    for folder, name in ((tmp_path, "config.json"), (tmp_path / "preset", "tokenizer.json")):
        values = json.loads((folder / name).read_text())
        values["config"] |= {"gate": 1, "dtype": "float32"}
        (folder / name).write_text(json.dumps(values))
        EncoderConfig.load(folder) if name == "config.json" else tokenizer_of(folder)
        assert f"{folder / name}: unknown settings are ignored: gate." in caplog.text


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
