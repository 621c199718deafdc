"""Twenty thousand damaged files of each format: every one loads or is refused; none hangs, crashes or grows.

A format is a row of FORMATS. Another kind of damage is a line of _DAMAGES.
BERT_TF_FUZZ_FILES gives another number of files.
"""

import collections
import faulthandler
import json
import os
import pathlib
import resource
import shutil
import struct
import sys
import time
import warnings
import zlib

import numpy as np
import pytest
from safetensors.numpy import save

from tests import processes, tiny
from tests.checkpoints import good_files, hostile_files, tables
from tests.checkpoints.hostile_files_test import read

FILES = int(os.environ.get("BERT_TF_FUZZ_FILES", 20_000))
SECONDS, MEGABYTES = 10, 500  # for one file; for all of a format
DATA = pathlib.Path(__file__).parents[1] / "checkpoints" / "data"

_WEIGHTS = {"pooler.dense.weight": np.ones((3, 3), np.float32), "pooler.dense.bias": np.ones(3, np.float16)}
_PREFIX = "bert_model.ckpt"
_INDEX, _VALUES = f"{_PREFIX}.index", f"{_PREFIX}.data-00000-of-00001"


def _safetensors(folder):
    (folder / hostile_files.SAFE).write_bytes(save(_WEIGHTS))


def _torch(source):
    def write(folder):
        (folder / hostile_files.BIN).write_bytes((DATA / source).read_bytes())

    return write


def _small_zip(folder):
    values = [hostile_files.tensor(0, [2, 2], [2, 1]), hostile_files.tensor(1, [3], [1])]
    hostile_files.zip_of(hostile_files.state(*values), _0=bytes(range(16)))(folder / hostile_files.BIN)


def _tf1(folder):
    bias, kernel = np.ones(3, np.float32), np.ones((3, 3), np.float32)
    data = bias.tobytes() + kernel.tobytes()
    entries = {"bert/pooler/dense/bias": (bias, 0), "bert/pooler/dense/kernel": (kernel, 12)}
    rows = {
        name: {"dtype": 1, "shape": array.shape, "size": array.nbytes, "offset": at, "crc32c": _crc(array)}
        for name, (array, at) in entries.items()
    }
    return tables.write(folder / _PREFIX, rows, data)


def _crc(array):
    return struct.unpack("<I", tables.checksum(array.tobytes()))[0]


def _shards(folder):
    (folder / "model-00001-of-00001.safetensors").write_bytes(save(_WEIGHTS))
    index = {"metadata": {"total_size": 42}, "weight_map": dict.fromkeys(_WEIGHTS, "model-00001-of-00001.safetensors")}
    (folder / hostile_files.SAFE_INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")


def _config(folder):
    labels = {"id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}}
    more = {"model_type": "bert", "architectures": ["BertModel"], "position_embedding_type": "absolute"}
    values = {**tiny.config().to_dict(), **labels, **more}
    (folder / hostile_files.CONFIG).write_text(json.dumps(values, indent=1), encoding="utf-8")


def _vocab(folder):
    pieces = [*tiny.VOCAB, "##ing", "é", "##好", "w" * 199]
    (folder / hostile_files.VOCAB).write_text("\n".join(pieces), encoding="utf-8")
    settings = {"do_lower_case": True, "strip_accents": None, "tokenizer_class": "BertTokenizer", "max_len": 512}
    (folder / hostile_files.SETTINGS).write_text(json.dumps(settings), encoding="utf-8")


def _state(folder):
    _tf1(folder)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{_PREFIX}"\nall_model_checkpoint_paths: "a"\n')


CHECKED = "TF1 index with right checksums"
# Format -> (what writes a good folder, the file that is damaged, what it is read as).
FORMATS = {
    "safetensors": (_safetensors, hostile_files.SAFE, hostile_files.SAFE),
    "torch, zip": (_torch("zip.bin"), hostile_files.BIN, hostile_files.BIN),
    "torch, small zip": (_small_zip, hostile_files.BIN, hostile_files.BIN),
    "torch, stream": (_torch("stream.bin"), hostile_files.BIN, hostile_files.BIN),
    "TF1 index": (_tf1, _INDEX, _PREFIX),
    CHECKED: (_tf1, _INDEX, _PREFIX),
    "TF1 data": (_tf1, _VALUES, _PREFIX),
    "TF1 checkpoint": (_state, "checkpoint", _PREFIX),
    "index of shards": (_shards, hostile_files.SAFE_INDEX, hostile_files.SAFE_INDEX),
    "config.json": (_config, hostile_files.CONFIG, hostile_files.CONFIG),
    "vocab.txt": (_vocab, hostile_files.VOCAB, hostile_files.VOCAB),
    "tokenizer_config.json": (_vocab, hostile_files.SETTINGS, hostile_files.SETTINGS),
    "vocab.json": (good_files.byte_bpe, good_files.BPE_VOCAB, good_files.BPE_VOCAB),
    "merges.txt": (good_files.byte_bpe, good_files.MERGES, good_files.MERGES),
    "tokenizer.json": (good_files.whole, good_files.WHOLE, good_files.WHOLE),
    "spiece.model": (good_files.pieces, good_files.PIECES, good_files.PIECES),
    "KerasHub's config.json": (good_files.preset, hostile_files.CONFIG, hostile_files.CONFIG),
    "KerasHub's tokenizer.json": (
        good_files.preset_tokenizer, good_files.PRESET_TOKENIZER, good_files.PRESET_TOKENIZER
    ),
    "model.weights.h5": (good_files.weights, good_files.PRESET_WEIGHTS, good_files.PRESET_WEIGHTS),
    "adapter_config.json": (good_files.adapters, good_files.ADAPTER_CONFIG, good_files.ADAPTER_CONFIG),
    "adapter_model.safetensors": (good_files.adapters, good_files.ADAPTERS, good_files.ADAPTERS),
    "modules.json": (good_files.modules, good_files.MODULES, good_files.MODULES),
}  # fmt: skip
_NUMBERS = [b"0", b"-1", b"1e400", b"NaN", b"null", b"[]", b"{}", b"true", b"999999999999", b'"x"', b"9" * 5000]
_INTEGERS = [0, 1, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def _flip(data, rng):
    for at in rng.integers(len(data), size=rng.integers(1, 5)):
        data[at] ^= 1 << rng.integers(8)


def _overwrite(data, rng):
    at = rng.integers(len(data))
    data[at] = rng.choice([0, 1, 0x2E, 0x28, 0x7F, 0x80, 0xFF, 0x5B, 0x7B, 0x22])


def _truncate(data, rng):
    del data[rng.integers(len(data)) :]


def _splice(data, rng):
    start, size, at = rng.integers(len(data)), rng.integers(1, 64), rng.integers(len(data))
    data[at : at + rng.choice([0, size])] = data[start : start + size]


def _insert(data, rng):
    at, times = rng.integers(len(data)), rng.choice([1, 2, 50])
    data[at:at] = rng.bytes(rng.integers(1, 9)) * times


def _remove(data, rng):
    at = rng.integers(len(data))
    del data[at : at + rng.integers(1, 32)]


def _swap_digits(data, rng):
    places = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if places:
        at = rng.choice(places)
        data[at : at + 1] = rng.choice(_NUMBERS)


def _swap_integer(data, rng):
    at, size = rng.integers(len(data)), int(rng.choice([1, 2, 4, 8]))
    value = _INTEGERS[rng.integers(len(_INTEGERS))] % 2 ** (8 * size)
    data[at : at + size] = value.to_bytes(size, "little")


_DAMAGES = (_flip, _overwrite, _truncate, _splice, _insert, _remove, _swap_digits, _swap_integer)


def damaged(data: bytes, rng) -> bytes:
    """Returns the data with one or two damages."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 3)):
        if data:
            _DAMAGES[rng.integers(len(_DAMAGES))](data, rng)
    return bytes(data)


def _fuzz(names, parent, files, pipe):
    """Sends for each format how many damaged files ended how; the last file stays in its folder."""
    log = os.open(os.path.join(parent, "log"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 2)  # what TensorFlow says, and where the process died
    warnings.simplefilter("ignore")
    for name in names:
        folder = os.path.join(parent, name)
        os.mkdir(folder)
        pipe.send((name, *_fuzz_one(name, folder, files)))


def _fuzz_one(name, folder, files):
    """Returns the tally, seconds, and megabytes by which the process grew."""
    write, file, kind = FORMATS[name]
    block, rng = write(pathlib.Path(folder)), np.random.default_rng(zlib.crc32(name.encode()))
    path = os.path.join(folder, file)
    data = block if name == CHECKED else pathlib.Path(path).read_bytes()
    read(folder, kind)  # undamaged it is good
    before, start, tally = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic(), collections.Counter()
    for _ in range(files):
        content = damaged(data, rng)
        with open(path, "wb") as out:
            out.write(tables.table(content) if name == CHECKED else content)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        tally[_outcome(folder, kind)] += 1
        faulthandler.cancel_dump_traceback_later()
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    return dict(tally), time.monotonic() - start, growth


def _outcome(folder, kind):
    try:
        read(folder, kind)
        return "loaded"
    except ValueError:
        return "refused"
    except Exception as error:
        shutil.copytree(folder, f"{folder}.{type(error).__name__}", dirs_exist_ok=True)
        return f"{type(error).__name__}: {error}"[:300]


def _check(names, parent, files):
    there, here = processes.pipe()
    process = processes.start(_fuzz, names, os.fspath(parent), files, here)
    here.close()
    for _ in names:
        try:
            name, tally, seconds, growth = there.recv()
        except EOFError:
            process.join()
            log = (parent / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
            pytest.fail(f"the process ended with {process.exitcode}; the last file is in {parent}:\n{log}")
        print(f"{name}: {tally}, {seconds:.0f} s, {growth:.0f} MB more", file=sys.__stderr__)
        assert set(tally) <= {"loaded", "refused"}, (tally, parent)
        assert sum(tally.values()) == files and tally["refused"] and growth < MEGABYTES
    process.join()


@pytest.mark.slow
def test_a_few_damaged_files(tmp_path):
    _check(list(FORMATS), tmp_path, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_twenty_thousand_damaged_files(name, tmp_path):
    _check([name], tmp_path, FILES)
