"""Good, damaged and crafted files that libraries in C++ map or parse: graphs of USearch, indexes, .tflite and Parquet.

SentencePiece, HDF5 and TF1's index are here for their crafted files; `checkpoints_fuzz_test.py` damages more of them.
"""

import functools
import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED, open_fast_path
from tests.checkpoints.good_files import GOLDENS, PIECES
from tests.checkpoints.hostile_files_test import read
from tests.data.hostile_parquet import crafted_parquet
from tests.export.hostile_litert import crafted_litert
from tests.inference.hostile_graphs import crafted_graphs, odd_graphs

_ROWS = 200
_PIECES_BYTES = (GOLDENS / "unigram" / PIECES).stat().st_size
_EXTREMES = bytes(8), b"\xff" * 8, b"\xff" * 4 + bytes(4), b"\xff" * 7 + b"\x7f", b"\x00" * 7 + b"\x80"


class Mapped(NamedTuple):
    """A format.

    Attributes:
        write: writes good files to an empty folder.
        files: patterns of the files that are damaged, one at a time.
        read: reads the files in a folder.
        craft: bytes of a good file -> {what is wrong: bytes, or what makes them}; None: there are no crafted files.
    """

    write: Callable[[pathlib.Path], None]
    files: tuple[str, ...]
    read: Callable[[str], None]
    craft: Callable[[bytes], dict] | None = None


def _vectors():
    return np.random.default_rng(0).normal(size=(_ROWS, 16)).astype(np.float32)


def _write_segment(folder, dtype):
    from bert_tf.inference.index_segments import document_columns, write_segment

    names = [f"{n}é" for n in range(_ROWS)]
    columns = document_columns(_vectors(), names, names, [{"a": [n]} for n in range(_ROWS)], dtype)
    write_segment(str(folder / "segment"), columns)


def _graph(dtype):
    from bert_tf.inference.index_segments import Segment
    from bert_tf.inference.segment_graphs import SegmentGraph

    def write(folder):
        _write_segment(folder, dtype)
        read(folder)

    def read(folder):
        segment = Segment(os.path.join(folder, "segment"), None, dtype)
        graph, queries = SegmentGraph(segment), _vectors()[:9]
        for count in (3, 150):
            found = graph.nearest(segment, queries / np.linalg.norm(queries, axis=1, keepdims=True), count)
            assert found is None or found[1].min() >= 0 and found[1].max() < _ROWS

    return Mapped(write, ("segment/graph.usearch",), read, _craft_graphs if dtype == "float32" else None)


def _craft_graphs(data):
    return crafted_graphs(data) | odd_graphs(data)


def _read_segment(folder):
    from bert_tf.inference.index_segments import Segment, merge_segments
    from bert_tf.inference.nearest_neighbors import find_nearest

    segment = Segment(os.path.join(folder, "segment"))
    find_nearest([segment], _vectors()[:2], 5)
    segment.find([f"{n}é" for n in range(0, _ROWS, 9)])
    shutil.rmtree(os.path.join(folder, "merged"), ignore_errors=True)
    merge_segments(os.path.join(folder, "merged"), [segment])


def _litert(path):
    def write(folder):
        shutil.copyfile(path, folder / "model.tflite")

    def read(folder):
        from bert_tf.serving.server.tflite_model import TfliteModel
        from bert_tf.utils import litert_trial

        litert_trial._run_in_child = _fork
        TfliteModel(folder).prepare((), ())

    return Mapped(write, ("model.tflite",), read, crafted_litert)


def _fast_path(path):
    """The same file next to a SavedModel, with the table of what it answers: a damaged one is not used."""

    def write(folder):
        (folder / FOLDER).mkdir(parents=True)
        shutil.copyfile(path, folder / FOLDER / "model.tflite")
        speed = {MOST_TEXTS: {"8": 4, "16": 4}, INTERPRETERS: 2, ONLY_SHORT: False}
        (folder / FOLDER / SPEED).write_text(json.dumps(speed), encoding="utf-8")

    def read(folder):
        from bert_tf.utils import litert_trial

        litert_trial._run_in_child = _fork
        fast_path = open_fast_path(folder, 1, is_warmed=True)
        if fast_path is None:
            raise ValueError("The SavedModel answers all requests.")
        texts = {"question": np.array([b"a good film"], object), "context": np.array([b"the film is warm"], object)}
        if fast_path.takes(texts):
            fast_path.answer(texts)

    return Mapped(write, (f"{FOLDER}/*",), read, crafted_litert)


def _fork(data):
    """Returns how a trial ends in a fork, and no errors: 2,000 imports of TensorFlow would take hours."""
    from bert_tf.utils.litert_trial import run_all_signatures

    child = os.fork()
    if not child:
        run_all_signatures(data)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ""


def _parquet(**options):
    def write(folder):
        import pyarrow as pa
        from pyarrow import parquet

        numbers = range(60)
        columns = {"text": [f"text {n % 7} é" for n in numbers], "label": [n % 3 for n in numbers]}
        columns |= {"x": pa.array([n / 7 for n in numbers], pa.float32()), "l": [["a", None, str(n)] for n in numbers]}
        columns |= {"d": [{"a": n, "b": [n]} for n in numbers], "n": [None if n % 2 else True for n in numbers]}
        parquet.write_table(pa.table(columns), folder / "a.parquet", row_group_size=25, **options)

    return Mapped(write, ("a.parquet",), _read_parquet, crafted_parquet)


def _read_parquet(folder):
    from bert_tf.data.parquet_rows import parquet_rows

    for _ in parquet_rows(os.path.join(folder, "a.parquet"), lambda names: list(range(len(names)))):
        pass


def _checkpoint(row, step):
    """A format of `checkpoints_fuzz_test.py`, with an extreme number in every place."""
    write, file, kind = row
    return Mapped(write, (file,), lambda folder: read(folder, kind), functools.partial(_craft_numbers, step=step))


def _craft_numbers(data, step):
    return {
        f"{at}: {value.hex()}": data[:at] + value + data[at + len(value) :]
        for at in range(0, len(data), step)
        for value in _EXTREMES
    }


def mapped_formats(tflite: str, checkpoints: dict[str, tuple]) -> dict[str, Mapped]:
    """Returns the formats by name, for a good .tflite file and the formats of `checkpoints_fuzz_test.py`."""
    segment = Mapped(lambda folder: _write_segment(folder, "float32"), ("segment/*.npy",), _read_segment)
    return {
        **{f"graph.usearch, {dtype}": _graph(dtype) for dtype in ("float32", "int8", "binary")},
        "segment of an index": segment,
        "spiece.model": _checkpoint(checkpoints["spiece.model"], max(1, _PIECES_BYTES // 100)),
        "model.weights.h5": _checkpoint(checkpoints["model.weights.h5"], 24),
        "TF1 index": _checkpoint(checkpoints["TF1 index"], 1),
        "model.tflite": _litert(tflite),
        "model.tflite and speed.json": _fast_path(tflite),
        "Parquet": _parquet(compression="none", use_dictionary=["text"]),
        "Parquet, compressed": _parquet(compression="zstd", data_page_version="2.0"),
    }
