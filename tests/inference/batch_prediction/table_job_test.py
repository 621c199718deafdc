"""Promises of a job over a table: the same bytes however it is run, each row once, and nothing half-made."""

import csv
import dataclasses
import datetime
import decimal
import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import read_rows
from bert_tf.inference.batch_prediction import table_job
from bert_tf.inference.batch_prediction.answer_parts import CountedAnswers
from bert_tf.inference.batch_prediction.column_values import EntityLists, Partial, Slice
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.batch_prediction.output_formats import format_of
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.utils.progress import Countdown
from bert_tf.utils.token_counts import TokenCountLog, TokenCounts
from tests.conftest import ROOT
from tests.inference.batch_prediction.fakes import FakeMaker, answers

TEXTS = [f"text {n} {'x' * (n % 7)}é" for n in range(23)]
ALL = TableRows([str(n) for n in range(len(TEXTS))], (TEXTS,))


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return tmp_path


def job(home, name="out.npz", arrays=True, **more):
    maker = FakeMaker(str(home / "log"), arrays=arrays, **more.pop("maker", {}))
    return TableJob(str(home / "in.txt"), str(home / name), maker, **{"rows_per_chunk": 5, **more})


def parts_answered(home):
    path = home / "log"
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def check_npz(paths):
    expected, loaded = answers(ALL), [np.load(path) for path in paths]
    for name in ("label", "vector", "grid", "id"):
        got = np.concatenate([each[name] for each in loaded])
        np.testing.assert_array_equal(got, np.asarray(expected[name]))
        assert got.dtype == np.asarray(expected[name]).dtype
    for name in ("codes", "pieces"):
        np.testing.assert_array_equal(np.concatenate([each[name] for each in loaded]), expected[name].flat)
        lengths = np.concatenate([np.diff(each[f"{name}_splits"]) for each in loaded])
        np.testing.assert_array_equal(lengths, expected[name].lengths)


def check_jsonl(paths):
    lines = [json.loads(line) for path in paths for line in pathlib.Path(path).read_text("utf-8").splitlines()]
    check_rows(lines)
    assert '"vector": [2.6666667, 1.142857' in pathlib.Path(paths[0]).read_text("utf-8")  # no more digits than float32


def check_parquet(paths):
    check_rows([row for path in paths for row in parquet.read_table(path).to_pylist()])


def check_csv(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    as_text = ("id", "label")
    check_rows([{name: cell if name in as_text else json.loads(cell) for name, cell in row.items()} for row in rows])


def check_rows(lines):
    expected = answers(ALL, arrays=False)
    for name in ("id", "label", "words"):
        assert [line[name] for line in lines] == expected[name]
    np.testing.assert_array_equal(np.array([line["vector"] for line in lines], np.float32), expected["vector"])
    assert [line["grid"] for line in lines] == expected["grid"].tolist()
    assert [line["codes"] for line in lines] == [row.tolist() for row in expected["codes"].rows()]
    assert [line["pieces"] for line in lines] == [row.tolist() for row in expected["pieces"].rows()]


CHECKS = {"out.npz": check_npz, "out.jsonl": check_jsonl, "out.parquet": check_parquet, "out.csv": check_csv}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("num_shards", [None, 1, 4, 23])
def test_every_format_holds_every_row_once_and_in_order(home, name, num_shards):
    paths = run_table_job(job(home, name, arrays=name == "out.npz", num_shards=num_shards))
    assert len(paths) == (num_shards or 1) and sorted(os.listdir(home)) == sorted(
        ["in.txt", "log", *map(os.path.basename, paths)]
    )
    assert num_shards is None or paths[-1].endswith(f"-{num_shards - 1:05d}-of-{num_shards:05d}{name[3:]}")
    CHECKS[name](paths)


def test_the_same_bytes_from_processes_and_from_beam(home):
    pytest.importorskip("apache_beam", reason="Apache Beam is an extra: pip install bert-tf[beam]")
    one = job(home, num_shards=2)
    made = {}
    for how, more in (("here", {}), ("workers", {"num_workers": 2}), ("beam", {"runner": "DirectRunner"})):
        runner = more.pop("runner", None)
        paths = run_table_job(TableJob(**{**one.__dict__, **more}), runner)
        made[how] = [pathlib.Path(path).read_bytes() for path in paths]
    assert made["here"] == made["workers"] == made["beam"]
    assert sorted(parts_answered(home)) == sorted([0, 5, 10, 15, 20] * 3)


def _with_gaps(home, name, **more):
    """Returns a job on the same texts, of which rows 2, 5 to 9 (a whole part) and 22 are null."""
    rows = [{"text": None if n in _GAPS else text} for n, text in enumerate(TEXTS)]
    (home / "in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return dataclasses.replace(job(home, name, arrays=False, **more), input_file=str(home / "in.jsonl"))


_GAPS = (2, *range(5, 10), 22)
_READERS = {
    "out.jsonl": lambda path: list(map(json.loads, path.read_text("utf-8").splitlines())),
    "out.parquet": lambda path: parquet.read_table(path).to_pylist(),
    "out.csv": lambda path: list(csv.DictReader(path.read_text("utf-8").splitlines())),
}


@pytest.mark.parametrize("name", _READERS)
def test_a_row_without_a_text_is_answered_with_null(home, name, caplog):
    run_table_job(_with_gaps(home, name))
    rows, none = _READERS[name](home / name), "" if name == "out.csv" else None
    assert [row["id"] for row in rows] == list(ALL.ids)
    expected = answers(ALL, arrays=False)
    for n, row in enumerate(rows):
        values = [value for key, value in row.items() if key != "id"]
        assert len(values) == 6 and all((value == none) == (n in _GAPS) for value in values), row
        assert n in _GAPS or row["label"] == expected["label"][n]
    assert "in.jsonl: 7 of 23 rows have no text (null), in lines 3, 6, 7, 8, 9, 10, 23; their" in caplog.text
    assert "7 of 23 rows have null predictions, because their text is missing." in caplog.messages[-1]


@dataclasses.dataclass(frozen=True)
class _CountingMaker(FakeMaker):
    verb = "Embedding"

    def __call__(self):
        log = TokenCountLog("the model")

        def answer(rows):
            log.add(TokenCounts(len(rows.ids), 0, 90, 3, unknown_texts=int("0" in rows.ids)))
            return answers(rows)

        return CountedAnswers(answer, log)


def test_texts_that_the_model_does_not_read_are_counted_once_for_the_file(home, caplog, monkeypatch):
    caplog.set_level("INFO")
    verbs = []
    monkeypatch.setattr(table_job, "Countdown", lambda verb, *rest: verbs.append(verb) or Countdown(verb, *rest))
    run_table_job(dataclasses.replace(job(home), maker=_CountingMaker(str(home / "log"))))
    (record,) = [record for record in caplog.records if "unknown" in record.getMessage()]
    assert record.levelname == "WARNING" and verbs == ["Embedding"]
    assert f"{home}/in.txt: 0 of 23 texts (0.0%) are truncated; 15 of 450 tokens (3.3%) are" in record.getMessage()
    assert "; 1 of 23 texts (4.3%) consists mostly of unknown tokens. " in record.getMessage()


def test_rows_without_a_text_are_skipped(home, caplog):
    run_table_job(_with_gaps(home, "out.jsonl", on_null="skip", num_shards=2))
    rows = [row for n in (0, 1) for row in _READERS["out.jsonl"](home / f"out-0000{n}-of-00002.jsonl")]
    assert [int(row["id"]) for row in rows] == [n for n in range(len(TEXTS)) if n not in _GAPS]
    assert "7 of 23 rows have no text (null or empty), in lines 3, 6, 7, 8, 9, 10, 23; they are left" in caplog.text
    assert caplog.messages[-1] == "7 of 23 rows were left out, because their text is missing."
    run_table_job(dataclasses.replace(_with_gaps(home, "out.npz", on_null="skip"), maker=job(home).maker))
    assert len(np.load(home / "out.npz")["id"]) == 16


def test_rows_without_a_text_end_the_job_before_it_starts(home):
    for name, on_null, words in (
        ("out.jsonl", "error", "with `on_null=error`. 7 rows of 23 have no text, in lines 3, .*, or pass `on_null="),
        ("out.npz", "null", "arrays have no null. .* pass `on_null=skip`, or write `output_file` as .jsonl"),
    ):
        with pytest.raises(ValueError, match=words):
            run_table_job(_with_gaps(home, name, on_null=on_null))
    assert sorted(os.listdir(home)) == ["in.jsonl", "in.txt"]


def test_parquet_keeps_the_types_of_copied_columns(home):
    columns = {
        "number": pa.array(range(23), pa.int16()), "text": pa.array(TEXTS),
        "day": pa.array([None] * 12 + [1] * 11, pa.date32()),
        "tags": pa.array([None, *[["x"]] * 22], pa.list_(pa.string())),
        "price": pa.array([0.1] * 23, pa.float32()), "none": pa.nulls(23, pa.int64()),
    }  # fmt: skip
    parquet.write_table(pa.table(columns), home / "in.parquet")
    more = {"id_column": "number", "keep_columns": ("*",), "num_shards": 2}
    paths = run_table_job(dataclasses.replace(job(home, "out.parquet", **more), input_file=str(home / "in.parquet")))
    tables = list(map(parquet.read_table, paths))
    names = ["number", "day", "tags", "price", "none"]
    assert tables[0].schema == tables[1].schema and tables[0].column_names[:6] == [*names, "label"]
    assert pa.concat_tables(tables).select(names) == pa.table(columns).select(names)


def test_a_parquet_column_has_one_type(home):
    rows = [{"text": text, "key": n if n else "none"} for n, text in enumerate(TEXTS)]
    (home / "in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    mixed = dataclasses.replace(job(home, "out.parquet", id_column="key"), input_file=str(home / "in.jsonl"))
    with pytest.raises(ValueError, match="one type; got a text in line 1 and a number in line 2 in the column 'key'"):
        run_table_job(mixed)
    run_table_job(dataclasses.replace(mixed, output_file=str(home / "out.jsonl")))
    assert [row["key"] for row in _READERS["out.jsonl"](home / "out.jsonl")] == [row["key"] for row in rows]


def test_an_id_must_not_have_the_name_of_an_output(home):
    (home / "in.tsv").write_text("text\tlabel\nx\ty\n")
    named = dataclasses.replace(job(home, id_column="label"), input_file=str(home / "in.tsv"))
    with pytest.raises(ValueError, match="`id_column` must not have the name of a column of predictions .label, vec"):
        run_table_job(named)


def test_arrays_hold_no_null(home):
    with pytest.raises(ValueError, match="have no null. 7 rows of 23 have no text, in lines 3, 6, .* Add"):
        run_table_job(_with_gaps(home, "out.npz"))
    assert sorted(os.listdir(home)) == ["in.jsonl", "in.txt"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.csv"])
def test_numbers_of_a_column_have_nan_for_null(tmp_path, name):
    form, part, path = format_of(name), str(tmp_path / "part"), str(tmp_path / name)
    missing = np.array([False, True, False])
    form.write(part, {"id": ["a", "b", "c"], "n": Partial(np.array([1.5, 0, 2], np.float32), missing)})
    form.join(path, [Slice(part, 0, 3)])
    np.testing.assert_array_equal(form.numbers(path, "n"), [1.5, np.nan, 2])


_KILLED = """
import os, signal, sys
from bert_tf.inference.batch_prediction import answer_parts
from tests.inference.batch_prediction.table_job_test import job, pathlib, run_table_job

write, left = answer_parts.PartWriter.write, int(sys.argv[2])

def write_and_die(self, *arguments):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return write(self, *arguments)

answer_parts.PartWriter.write = write_and_die
name = sys.argv[3] if sys.argv[3:] else 'out.npz'
run_table_job(job(pathlib.Path(sys.argv[1]), name, arrays=name.endswith('z')))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_twice_answers_each_part_once(home):
    for done in (2, 1):
        ended = subprocess.run([sys.executable, "-c", _KILLED, home, str(done)], cwd=ROOT, check=False)
        assert ended.returncode == -9 and not (home / "out.npz").exists()
    assert parts_answered(home) == [0, 5, 10]
    check_npz(run_table_job(job(home, num_shards=3)))
    assert parts_answered(home) == [0, 5, 10, 15, 20] and not (home / "out.npz.parts").exists()


FORMULAS = ["=1+1", "+a", "-b", "@sum", "\tx", "\r=x", "\n=x", "-0.5", "+1e-3", "-.5", "-1-1", "--", "a =1", "'=q", ""]
QUOTED = {"=1+1", "+a", "-b", "@sum", "\tx", "\r=x", "\n=x", "-1-1", "--"}


@pytest.mark.parametrize("quoted", [True, False])
def test_texts_that_are_formulas_are_quoted_for_spreadsheets_and_numbers_are_not(tmp_path, quoted):
    form, part, path = format_of("a.CSV", quoted), str(tmp_path / "part"), tmp_path / "a.csv"
    numbers = np.array([-0.5, np.nan, *range(2, len(FORMULAS))], np.float32)
    form.write(part, {"=name": FORMULAS, "n": numbers, "list": [["=1"]] * len(FORMULAS)})
    form.join(str(path), [Slice(part, 0, 7), Slice(part, 7, len(FORMULAS))])
    with open(path, encoding="utf-8", newline="") as file:
        (name, *others), *rows = csv.reader(file)
    assert (name, others) == ("'=name" if quoted else "=name", ["n", "list"])
    assert [row[0] for row in rows] == [f"'{text}" if quoted and text in QUOTED else text for text in FORMULAS]
    assert [row[1] for row in rows[:3]] == ["-0.5", "", "2.0"] and {row[2] for row in rows} == {'["=1"]'}
    np.testing.assert_array_equal(form.numbers(str(path), "n"), numbers)
    read_back = read_rows(str(path), [Column(name, "text_column")], True)
    assert [text for _, (text,) in read_back] == [row[0] for row in rows]


def test_a_run_resumes_only_with_the_same_ids_and_nulls(home):
    ended = subprocess.run([sys.executable, "-c", _KILLED, home, "1"], cwd=ROOT, check=False)
    assert ended.returncode == -9
    with pytest.raises(ValueError, match="on_null: None before, 'skip' now"):
        run_table_job(job(home, on_null="skip"))


def test_a_run_goes_on_only_with_the_same_quotes(home):
    ended = subprocess.run([sys.executable, "-c", _KILLED, home, "1", "out.csv"], cwd=ROOT, check=False)
    assert ended.returncode == -9
    with pytest.raises(ValueError, match="quote_formulas: True before, False now. To resume it, run"):
        run_table_job(job(home, "out.csv", arrays=False, quote_formulas=False))


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv"])
def test_copied_values_that_json_does_not_have_are_text(tmp_path, name):
    day = datetime.date(2024, 2, 29)
    columns = {"text": ["a"], "day": [day], "price": [decimal.Decimal("1.50")], "days": [[day]]}
    columns |= {"code": [b"caf\xc3\xa9"]}
    parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    maker = FakeMaker(str(tmp_path / "log"))
    job = TableJob(str(tmp_path / "in.parquet"), str(tmp_path / name), maker, keep_columns=("*",))
    (path,) = run_table_job(job)
    text = pathlib.Path(path).read_text(encoding="utf-8")
    row = json.loads(text) if name == "out.jsonl" else next(csv.DictReader(io.StringIO(text)))
    assert [row["day"], row["price"], row["code"]] == ["2024-02-29", "1.50", "café"]
    assert row["days"] == (["2024-02-29"] if name == "out.jsonl" else '["2024-02-29"]')


def test_arrays_hold_no_entities_even_if_there_are_none(tmp_path):
    with pytest.raises(ValueError, match=".npz can only store arrays, and 'entities' is not one"):
        format_of("a.npz").write(str(tmp_path / "a.npz"), {"entities": EntityLists([[], []])})
