"""pytorch_model.bin without torch: right values from files that torch wrote, and no code run from files it did not."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoints.torch_bin import TorchBin
from tests import other_envs
from tests.checkpoints import hostile_files

DATA = pathlib.Path(__file__).parent / "data"
TABLE = np.arange(24, dtype=np.float32).reshape(4, 6)
VIEWS = {
    "whole": TABLE,
    "transposed": TABLE.T,
    "column": [2, 8, 14, 20],
    "block": [[8, 9, 10], [14, 15, 16]],
    "every_other": np.arange(1, 24, 2),
    "expanded": [[5], [5], [5]],
    "scalar": 7.5,
    "empty": np.zeros([0, 3]),
    "parameter": [1.5, -2.5],
}
TYPES = ["float16", "float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "bfloat16"]


@pytest.mark.parametrize("name", ["zip.bin", "stream.bin", "nested.bin"])
def test_values_of_every_type_and_view(name):
    file = TorchBin(DATA / name)
    assert set(file.tensors) == {*VIEWS, *TYPES}
    for view, expected in VIEWS.items():
        np.testing.assert_array_equal(file.read(view), np.asarray(expected, np.float32), strict=True)
        assert file.tensors[view].shape == np.shape(expected)
    for dtype in TYPES:
        expected = np.array([[1, 0, 3], [4, 5, 6]]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        np.testing.assert_array_equal(file.read(dtype), expected, strict=True)


class Runs:
    """Pickles to a call of os.system that would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def _zip_of(path, content: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return path


def _stream_of(path, content: bytes):
    header = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    path.write_bytes(header + content)
    return path


@pytest.mark.parametrize("pack", [_zip_of, _stream_of])
def test_code_is_refused_and_not_run(tmp_path, pack):
    proof = tmp_path / "it_ran"
    content = pickle.dumps({"weight": Runs(proof)}, 2)
    pickle.loads(content)
    assert proof.exists()  # the pickle does what it says, if it may
    proof.unlink()
    with pytest.raises(ValueError, match=r"model.bin is not a complete .* tries to run posix.system"):
        TorchBin(pack(tmp_path / "model.bin", content))
    assert not proof.exists()


def test_a_plain_pickle_is_refused_before_it_runs(tmp_path):
    (tmp_path / "model.bin").write_bytes(pickle.dumps(Runs(tmp_path / "it_ran"), 4))
    with pytest.raises(ValueError, match="tries to run posix.system"):
        TorchBin(tmp_path / "model.bin")
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("name", ["eval", "getattr", "__import__", "print"])
def test_builtins_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"tries to run builtins.{name}"):
        TorchBin(_zip_of(tmp_path / "model.bin", f"cbuiltins\n{name}\n(tR.".encode()))


STORAGE = b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
BAD_TENSORS = {
    "beyond its storage": b"K\x02(K\x03t(K\x01t\x89)",  # offset 2, shape 3, of 4 elements
    "has 2 strides": b"K\x00(K\x03t(K\x01K\x01t\x89)",
    "not what torch writes": b"K\x00(K\x03t(J\xff\xff\xff\xfft\x89)",  # stride -1
}


@pytest.mark.parametrize("says, arguments", BAD_TENSORS.items())
def test_a_tensor_outside_its_storage_is_refused(tmp_path, says, arguments):
    content = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + STORAGE + arguments + b"tR."
    with pytest.raises(ValueError, match=says):
        TorchBin(_zip_of(tmp_path / "model.bin", content))


@pytest.mark.parametrize(
    "state", [b"}X\x04\x00\x00\x00sizeJ\xff\xff\xff\x7fs", b"N}X\x04\x00\x00\x00sizeJ\xff\xff\xff\x7fs\x86"]
)
def test_a_storage_cannot_be_changed_after_it_was_checked(tmp_path, state):
    content = b"\x80\x02" + STORAGE.removeprefix(b"(") + state + b"b."  # b: BUILD, sets attributes
    with pytest.raises(ValueError, match="a Storage in place of a dict"):
        TorchBin(_zip_of(tmp_path / "model.bin", content))


@pytest.mark.parametrize("name", ["zip.bin", "stream.bin"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_short(tmp_path, name, share):
    whole = (DATA / name).read_bytes()
    (tmp_path / "model.bin").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ValueError, match="model.bin is not a complete torch file .* Download it again"):
        TorchBin(tmp_path / "model.bin")


def test_cut_short_after_it_was_opened(tmp_path):
    path = shutil.copy(DATA / "stream.bin", tmp_path / "model.bin")
    file = TorchBin(path)
    os.truncate(path, os.path.getsize(path) - 40)
    with pytest.raises(ValueError, match="is not a complete torch file"):
        for name in file.tensors:
            file.read(name)


def test_a_damaged_byte_in_a_zip_is_found(tmp_path):
    content = bytearray((DATA / "zip.bin").read_bytes())
    at = content.index(TABLE.tobytes())
    content[at] ^= 1
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(ValueError, match="a checksum mismatch"):
        TorchBin(tmp_path / "model.bin").read("whole")


def test_a_file_that_holds_more_than_tensors(tmp_path):
    with pytest.raises(ValueError, match=r"not tensors, under the names \['epoch'\]"):
        TorchBin(_zip_of(tmp_path / "model.bin", pickle.dumps({"epoch": 3}, 2)))
    with pytest.raises(ValueError, match="a list in place of a dict"):
        TorchBin(_zip_of(tmp_path / "model.bin", pickle.dumps([1], 2)))


_TORCH_VALUES = """
import sys, torch, numpy
tensors = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
numpy.savez(sys.argv[2], **{name: value.float().numpy() for name, value in tensors.items()})
"""


@pytest.mark.slow
def test_a_real_file_has_the_values_that_torch_reads(tmp_path):
    fetch = pathlib.Path(__file__).parents[3] / "shared" / "tools" / "fetch_data.py"
    if not fetch.exists():
        pytest.skip(f"needs {fetch}, which fetches AntiBERTy's weights")
    cache = pathlib.Path.home() / ".cache" / "bert_tf_data"
    subprocess.run([sys.executable, fetch, "antiberty", "--out", cache], check=True)
    (path,) = (cache / "antiberty").rglob("pytorch_model.bin")
    other_envs.run(other_envs.torch_python(), _TORCH_VALUES, path, tmp_path / "torch.npz")
    file, expected = TorchBin(path), np.load(tmp_path / "torch.npz")
    assert set(file.tensors) == set(expected.files)
    for name in expected.files:
        np.testing.assert_array_equal(file.read(name).astype(np.float32), expected[name])


def test_a_storage_that_many_tensors_share_is_read_once(tmp_path, monkeypatch):
    """Each of them read it whole: 20,000 numbers of one storage of 100 MB were two terabytes."""
    size, count = 2**16, 1000
    one = hostile_files.storage(size)
    values = [hostile_files.tensor(3 * i, [2], [4], one) for i in range(count)]
    numbers = np.arange(size, dtype=np.float32)
    path = tmp_path / "shared.bin"
    hostile_files.zip_of(hostile_files.state(*values), _0=numbers.tobytes())(path)
    file, taken, read = TorchBin(path), [], np.fromfile
    monkeypatch.setattr(np, "fromfile", lambda *args, **more: taken.append(args[2]) or read(*args, **more))
    for i, name in enumerate(["pooler.dense.bias", *(f"w{i}" for i in range(1, count))]):
        np.testing.assert_array_equal(file.read(name), numbers[[3 * i, 3 * i + 4]], strict=True)
    assert taken == [4 * size] + [4 * 5] * (count - 1)
