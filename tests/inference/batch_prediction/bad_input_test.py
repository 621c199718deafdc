"""What a user can get wrong: one clear message, and nothing half-made."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from bert_tf.inference.batch_prediction import answer_parts
from bert_tf.inference.batch_prediction.column_values import Slice
from bert_tf.inference.batch_prediction.input_table import InputTable
from bert_tf.inference.batch_prediction.npz_format import Npz
from bert_tf.inference.batch_prediction.table_job import run_table_job
from bert_tf.utils.folder_lock import alone_in
from tests.conftest import ROOT
from tests.inference.batch_prediction.table_job_test import (  # noqa: F401  a fixture
    check_npz,
    home,
    job,
    parts_answered,
)


def test_files_that_cannot_be_answered(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "header.tsv").write_text("text\n")
    (tmp_path / "lists.jsonl").write_text('{"text": "a", "choices": ["a", "b"]}\n{"text": "a", "choices": ["a", 1]}\n')
    for table, words in [
        (InputTable("empty.txt"), "empty.txt has no rows. Check the path"),
        (InputTable("header.tsv"), "header.tsv has no rows"),
        (InputTable("none.txt"), "File not found: .*none.txt"),
        (InputTable("."), "is a directory, not a file"),
        (InputTable("header.tsv", ("words",)), r"header.tsv:1: missing column 'words' \(`text_column`\)"),
        (
            InputTable("empty.txt", ("a", "b")),
            "`input_file` must be a .tsv, .csv, .jsonl or .parquet file if rows have several columns or lists;",
        ),
        (InputTable("lists.jsonl", ("choices",)), "lists.jsonl:1: a text must be a string; got .'a', 'b'."),
        (InputTable("lists.jsonl", ("choices",), ("choices",)), r"jsonl:2: the texts must be a list .* got \['a', 1\]"),
        (InputTable("a.parquet.gz"), "must end in .tsv, .csv"),
    ]:
        with pytest.raises(ValueError, match=words):
            InputTable(str(tmp_path / table.path), table.text_columns, table.list_columns).summary()


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.tsv", ["id\ttext", "x\ta", "y\tb", "x\ta"], "a.tsv:4: .*'x', the id of .*a.tsv:2, again; give one"),
        ("a.jsonl", ['{"id": 17, "text": "a"}', '{"id": 17.0, "text": "b"}'], "a.jsonl:2: .*'17', .*a.jsonl:1, ag"),
    ],
)
def test_ids_that_must_be_unique(name, lines, message, tmp_path):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    table = InputTable(str(tmp_path / name), id_column="id")
    assert table.summary().count == len(lines) - (name == "a.tsv")
    with pytest.raises(ValueError, match=message):
        table.summary(unique_ids=True)
    assert InputTable(table.path).summary(unique_ids=True).count  # numbered


def test_a_file_that_changes_between_the_readings(tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="changed while it was read: it has fewer than the 3 rows"):
        list(InputTable(str(tmp_path / "a.txt")).parts(2, 3))


def test_what_the_job_refuses_leaves_nothing(home):  # noqa: F811
    here = sorted(os.listdir(home))
    for more, words in [
        ({"name": "out.txt"}, "`output_file` must end in .npz, .jsonl, .parquet or .csv.*'.*out.txt'"),
        ({"name": ""}, "`output_file` must be a file; got the directory"),
        ({"num_shards": 24}, "`num_shards` must be at most 23, the number of rows; got 24."),
        ({"maker": {"broken": True}}, "There must be a model; got none."),
        ({"maker": {"broken": True}, "num_workers": 2}, "There must be a model; got none."),
    ]:
        with pytest.raises(ValueError, match=words):
            run_table_job(job(home, **more))
        assert sorted(os.listdir(home)) == here
    with pytest.raises(ValueError, match="must end in .jsonl or .parquet.*'words' is not one"):
        run_table_job(job(home, arrays=False))
    assert sorted(os.listdir(home)) == [*here, "log"]


def test_work_of_another_command_is_kept_until_it_may_go(home, monkeypatch):  # noqa: F811
    write = answer_parts.PartWriter.write

    def fail_at_two(self, number, rows):
        if number == 2:
            raise OSError(28, "No space left on device")
        return write(self, number, rows)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(answer_parts.PartWriter, "write", fail_at_two)
        run_table_job(job(home))
    kept = sorted(os.listdir(home / "out.npz.parts"))
    assert kept == ["manifest.json", "part-00000000", "part-00000001"]
    with pytest.raises(ValueError, match="only resume with the settings .* Changed: rows_per_chunk: 5 before, 6 now"):
        run_table_job(job(home, rows_per_chunk=6))
    with open(home / "in.txt", "a", encoding="utf-8") as file:
        file.write("one more\n")
    with pytest.raises(ValueError, match="input_file rows: 23 before, 24 now.* same rows .* `restart=true`"):
        run_table_job(job(home))
    assert sorted(os.listdir(home / "out.npz.parts")) == kept
    assert parts_answered(home) == [0, 5]
    run_table_job(job(home, restart=True))
    assert parts_answered(home)[2:] == [0, 5, 10, 15, 20] and not (home / "out.npz.parts").exists()


def test_a_run_that_was_killed_before_its_first_part_is_in_nobodys_way(home):  # noqa: F811
    (home / "out.npz.parts").mkdir()
    (home / "out.npz.parts" / "manifest.json").write_text('{"rows_per_chunk": 7}')
    (home / "out.npz.parts" / ".part-00000000.0123456789abcdef.tmp").write_text("half")
    check_npz(run_table_job(job(home)))


def test_a_folder_that_is_not_ours_and_one_in_use(home):  # noqa: F811
    folder = home / "out.npz.parts"
    folder.mkdir()
    (folder / "mine.txt").write_text("dear")
    with pytest.raises(ValueError, match="cannot be used for the parts of this job: it contains mine"):
        run_table_job(job(home, restart=True))
    assert (folder / "mine.txt").read_text() == "dear"
    (folder / "mine.txt").unlink()
    with alone_in(folder), pytest.raises(ValueError, match="already writing to .*out.npz.parts .`output_file`"):
        run_table_job(job(home))
    check_npz(run_table_job(job(home)))


_FULL_DISK = """
import pathlib, resource, signal, sys
from tests.inference.batch_prediction.table_job_test import job, run_table_job

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    run_table_job(job(pathlib.Path(sys.argv[1])))
except OSError as error:
    print("OSError", error.errno, error.filename)
"""


@pytest.mark.parametrize("room", [100, 6000], ids=["for no part", "for parts alone"])
def test_a_full_disk_keeps_the_old_file_and_the_parts(home, room):  # noqa: F811
    (home / "out.npz").write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", _FULL_DISK, home, str(room)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("OSError 27"), (done.stdout, done.stderr)
    assert (home / "out.npz").read_bytes() == b"old"
    assert (home / "out.npz.parts" / "part-00000004").exists() == (room > 100) == (home / "out.npz.parts").exists()
    answered = len(parts_answered(home))
    check_npz(run_table_job(job(home)))
    assert len(parts_answered(home)) - answered == (5 if room == 100 else 0)
    assert sorted(path.name for path in pathlib.Path(home).iterdir()) == ["in.txt", "log", "out.npz"]


def test_arrays_that_do_not_fit_together(tmp_path):
    parts = [Slice(str(tmp_path / name), 0, 1) for name in ("part-0", "part-1")]
    for each, width in zip(parts, (2, 3), strict=True):
        Npz().write(each.path, {"x": np.zeros([1, width])})
    with pytest.raises(ValueError, match=".npz can only store arrays, and 'x' is not one"):
        Npz().join(str(tmp_path / "out.npz"), parts)
    assert sorted(os.listdir(tmp_path)) == ["part-0", "part-1"]
