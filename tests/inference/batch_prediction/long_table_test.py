"""`bert-tf predict` over long tables: killed twice, on Beam, and in memory that does not grow."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.export.trained_model import export_trained
from tests import tiny
from tests.conftest import ROOT
from tests.export.models import write_trained


def _start(home, rows, output, *more):
    words = ["predict", f"--model={home / 'export'}", f"--input_file={home / rows}", f"--output_file={output}", *more]
    return subprocess.Popen([sys.executable, "-m", "bert_tf", *words], cwd=ROOT)


def _kill_at(parts, home, rows, output, *more):
    """Starts a run, and kills it once it has this many parts."""
    process, folder = _start(home, rows, output, *more), output.with_name(f"{output.name}.parts")
    while len(list(folder.glob("part-????????"))) < parts:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()


def _peak(process):
    """Megabytes of a run that must succeed."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1000


def _written(folder):
    return [path.read_bytes() for path in sorted(folder.glob("out-*-of-00003.jsonl"))]


@pytest.fixture
def home(tmp_path):
    write_trained(tmp_path / "trained", "classification")
    export_trained(str(tmp_path / "trained"), str(tmp_path / "export"))
    return tmp_path


@pytest.mark.slow
def test_20_000_rows(home):
    texts = [text for text, _ in tiny.texts(2_000)]
    for n, name in ((2_000, "short.txt"), (20_000, "long.txt")):
        (home / name).write_text("".join(f"{texts[i % 2_000]} {i}\n" for i in range(n)))
    folders = {name: home / name for name in ("short", "whole", "killed", "beam")}
    flags = "--rows_per_chunk=500", "--num_shards=3"
    peaks = [_peak(_start(home, f"{rows}.txt", folders[name] / "out.jsonl", *flags))
             for rows, name in (("short", "short"), ("long", "whole"))]  # fmt: skip
    print(f"\npeak memory: {peaks[0]:.0f} MB for 2,000 rows, {peaks[1]:.0f} MB for 20,000")
    assert peaks[1] < 1.1 * peaks[0]
    for parts in (10, 25):
        _kill_at(parts, home, "long.txt", folders["killed"] / "out.jsonl", *flags, "--num_workers=2")
        assert not _written(folders["killed"])
    _peak(_start(home, "long.txt", folders["killed"] / "out.jsonl", *flags))
    _peak(_start(home, "long.txt", folders["beam"] / "out.jsonl", *flags, "--runner=DirectRunner"))
    whole = _written(folders["whole"])
    assert whole == _written(folders["killed"]) == _written(folders["beam"])
    lines = b"".join(whole).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(i) for i in range(20_000)]


def _has_text(row):
    return row % 7 != 3 and row % 11 != 5  # of the others, some are null and some empty


@pytest.mark.slow
def test_200_000_rows_of_parquet_with_nulls(home):
    """Rows, types and nulls come out as they came in, killed twice or not, in memory that does not grow."""
    texts = [text for text, _ in tiny.texts(2_000)]
    for n in (20_000, 200_000):
        cells = [f"{texts[i % 2_000]} {i}" if _has_text(i) else None if i % 2 else "" for i in range(n)]
        columns = {"number": pa.array(range(n), pa.int64()), "text": cells, "price": pa.array([0.5] * n, pa.float32())}
        parquet.write_table(pa.table(columns), home / f"{n}.parquet", row_group_size=50_000)
    flags, long = ("--id_column=number", "--keep_columns=*", "--top_k=1"), "200000.parquet"
    started = time.perf_counter()
    peaks = [_peak(_start(home, f"{n}.parquet", home / f"whole-{n}.parquet", *flags)) for n in (20_000, 200_000)]
    print(f"\npeak memory: {peaks[0]:.0f} MB for 20,000 rows, {peaks[1]:.0f} MB for 200,000; "
          f"{time.perf_counter() - started:.0f} s for both")  # fmt: skip
    assert peaks[1] < 1.15 * peaks[0]
    output = home / "killed.parquet"
    for parts in (20, 60):
        _kill_at(parts, home, long, output, *flags)
        assert not output.exists()
    _peak(_start(home, long, output, *flags))
    assert output.read_bytes() == (home / "whole-200000.parquet").read_bytes()
    table = parquet.read_table(output)
    assert table.schema.types == [pa.int64(), pa.float32(), pa.string(), pa.float32(), pa.list_(pa.string()),
                                  pa.list_(pa.float32())]  # fmt: skip
    assert table["number"].to_pylist() == list(range(200_000)) and set(table["price"].to_pylist()) == {0.5}
    for name in ("label", "probability", "top_labels", "top_probabilities"):
        assert [value is not None for value in table[name].to_pylist()] == list(map(_has_text, range(200_000)))
