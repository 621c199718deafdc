"""Two thousand damaged files and all crafted ones of each format that C++ maps or parses: no signal, no traceback.

A format is a row of `mapped_formats`. BERT_TF_MAPPED_FILES gives another number of files.
"""

import collections
import faulthandler
import os
import pathlib
import sys
import time
import warnings
import zlib

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from tests import processes
from tests.export import models
from tests.robustness.checkpoints_fuzz_test import FORMATS, damaged
from tests.robustness.mapped_files import mapped_formats

FILES = int(os.environ.get("BERT_TF_MAPPED_FILES", 2000))
SECONDS, CRAFTED = 600, 30  # for one file, however busy the machine; crafted files of a format, at least
NAMES = list(mapped_formats("", FORMATS))
ONLY_DAMAGED = ("graph.usearch, int8", "graph.usearch, binary", "segment of an index")


@pytest.fixture(scope="module")
def tflite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("litert")
    models.write_trained(folder / "trained", "questions")
    export_trained(str(folder / "trained"), str(folder / "export"), ExportOptions(export_for="litert"))
    return folder / "export" / "1" / "model.tflite"


def _fuzz(name, tflite, folder, files, pipe):
    """Sends how many files ended how; the last file stays in its folder."""
    log = os.open(f"{folder}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 2)
    os.dup2(log, 1)
    warnings.simplefilter("ignore")
    form, folder = mapped_formats(tflite, FORMATS)[name], pathlib.Path(folder)
    folder.mkdir()
    form.write(folder)
    form.read(str(folder))  # undamaged it is good
    paths = sorted(path for pattern in form.files for path in folder.glob(pattern))
    good, rng = {path: path.read_bytes() for path in paths}, np.random.default_rng(zlib.crc32(name.encode()))
    tallies = collections.Counter(), collections.Counter()
    for number in range(files):
        path = paths[number % len(paths)]
        tallies[0][_outcome(form, folder, path, damaged(good[path], rng))] += 1
        path.write_bytes(good[path])
    crafted = form.craft(good[paths[0]]) if form.craft else {}
    for number, what in enumerate(crafted.values()):
        if number < CRAFTED or files > CRAFTED:
            tallies[1][_outcome(form, folder, paths[0], what if isinstance(what, bytes) else what())] += 1
    pipe.send(tuple(map(dict, tallies)))


def _outcome(form, folder, path, content):
    path.write_bytes(content)
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        form.read(str(folder))
        return "loaded"
    except ValueError:
        return "refused"
    except Exception as error:
        path.with_name(f"{path.name}.{type(error).__name__}").write_bytes(content)
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_damaged_and_crafted_files(name, tflite, tmp_path):
    if name.startswith("graph"):
        pytest.importorskip("usearch", reason="needs bert-tf[search]")
    there, here = processes.pipe()
    start = time.monotonic()
    process = processes.start(_fuzz, name, str(tflite), str(tmp_path / "files"), FILES, here)
    here.close()
    try:
        by_damage, by_hand = there.recv()
    except EOFError:
        process.join()
        log = (tmp_path / "files.log").read_text(encoding="utf-8", errors="replace")[-3000:]
        pytest.fail(f"the process ended with {process.exitcode}; the last file is in {tmp_path}:\n{log}")
    process.join()
    print(f"{name}: {by_damage}, crafted {by_hand}, {time.monotonic() - start:.0f} s", file=sys.__stderr__)
    assert {*by_damage, *by_hand} <= {"loaded", "refused"}, (by_damage, by_hand, tmp_path)
    assert sum(by_damage.values()) == FILES and by_damage["refused"]
    assert sum(by_hand.values()) >= CRAFTED or name in ONLY_DAMAGED
