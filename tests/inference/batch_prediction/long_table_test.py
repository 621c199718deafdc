"""`bert-tf predict` over a long table: killed twice, on Beam, and in memory that does not grow."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bert_tf.export.saved_model import export_trained
from tests import tiny
from tests.conftest import ROOT
from tests.export.models import write_trained


def _start(home, rows, output, *more):
    words = [
        "predict", f"--model={home / 'export'}", f"--input_file={home / rows}", f"--output_file={output}",
        "--rows_per_part=500", "--num_shards=3", *more,
    ]  # fmt: skip
    return subprocess.Popen([sys.executable, "-m", "bert_tf", *words], cwd=ROOT)


def _peak(process):
    """Megabytes of a run that must succeed."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1000


def _written(folder):
    return [path.read_bytes() for path in sorted(folder.glob("out-*-of-00003.jsonl"))]


@pytest.mark.slow
def test_20_000_rows(tmp_path):
    write_trained(tmp_path / "trained", "classification")
    export_trained(str(tmp_path / "trained"), str(tmp_path / "export"))
    texts = [text for text, _ in tiny.texts(2_000)]
    for n, name in ((2_000, "short.txt"), (20_000, "long.txt")):
        (tmp_path / name).write_text("".join(f"{texts[i % 2_000]} {i}\n" for i in range(n)))
    folders = {name: tmp_path / name for name in ("short", "whole", "killed", "beam")}
    peaks = [_peak(_start(tmp_path, f"{rows}.txt", folders[name] / "out.jsonl"))
             for rows, name in (("short", "short"), ("long", "whole"))]  # fmt: skip
    print(f"\npeak memory: {peaks[0]:.0f} MB for 2,000 rows, {peaks[1]:.0f} MB for 20,000")
    assert peaks[1] < 1.1 * peaks[0]
    for parts in (10, 25):
        process = _start(tmp_path, "long.txt", folders["killed"] / "out.jsonl", "--num_workers=2")
        while len(list((folders["killed"] / "out.jsonl.parts").glob("part-????????"))) < parts:
            time.sleep(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not _written(folders["killed"])
    _peak(_start(tmp_path, "long.txt", folders["killed"] / "out.jsonl"))
    _peak(_start(tmp_path, "long.txt", folders["beam"] / "out.jsonl", "--runner=DirectRunner"))
    whole = _written(folders["whole"])
    assert whole == _written(folders["killed"]) == _written(folders["beam"])
    lines = b"".join(whole).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(i) for i in range(20_000)]
