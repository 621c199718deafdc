"""Tables that are split: nothing in two parts, sizes and labels as asked for, rows as they were."""

import csv
import gzip
import json
import os
import pathlib
import random

import numpy as np
import pytest

from bert_tf.data import text_checks
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.dialect import Dialect
from bert_tf.data.splitting import Columns, split_folds, split_table

WORDS = ("the", "film", "is", "a", "story", "of", "people", "and", "music")


def _rows(n, seed=0, users=15):
    """Returns n rows of text, label and user; a fifth of the texts are another row's, in other letters."""
    draw = random.Random(seed)
    rows = []
    for i in range(n):
        text = f"{' '.join(draw.choices(WORDS, k=4))} {i}"
        if rows and draw.random() < 0.2:
            text = f" {draw.choice(rows)[0].upper()}"
        rows.append((text, draw.choices(("good", "bad", "odd"), (5, 4, 1))[0], f"u{draw.randrange(users)}"))
    return rows


def _write(path, rows, names=("text", "label", "user")):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return str(path)


def _read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def _parts(done):
    return [_read(path) for path in done.paths.values()]


def _sample(rows):
    return CheckedExamples("x", str, {"text": [row[0] for row in rows]})


def test_parts_share_no_text_and_are_as_large_as_asked(tmp_path):
    rows = _rows(600)
    done = split_table(_write(tmp_path / "all.csv", rows), str(tmp_path / "parts"), 0.1, 0.2)
    train, held_out, test = _parts(done)
    assert sorted(train + held_out + test) == sorted(rows)
    for one, other in ((train, held_out), (train, test), (held_out, test)):
        assert not list(text_checks.find_overlap(_sample(one), _sample(other)))
    assert done.sizes() == [len(train), len(held_out), len(test)] == [420, 60, 120]
    for label in ("good", "bad", "odd"):
        expected = 0.1 * sum(row[1] == label for row in rows)
        assert abs(sum(row[1] == label for row in held_out) - expected) <= 1.5
    assert train == [row for row in rows if row in set(train)]  # in the table's order


def test_a_group_is_in_one_part(tmp_path):
    rows = _rows(400, users=60)
    done = split_table(_write(tmp_path / "a.csv", rows), str(tmp_path / "p"), 0.2, columns=Columns(group="user"))
    train, held_out = _parts(done)
    assert not {row[2] for row in train} & {row[2] for row in held_out}
    assert not list(text_checks.find_overlap(_sample(train), _sample(held_out)))


def test_the_seed_decides(tmp_path):
    table = _write(tmp_path / "all.csv", _rows(200))
    found = {}
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        split_table(table, str(tmp_path / name), 0.1, seed=seed)
        found[name] = [(tmp_path / name / f"{part}.csv").read_bytes() for part in ("train", "eval")]
    assert found["one"] == found["same"]
    assert all(map(lambda one, other: one != other, found["one"], found["other"]))


ROWS = [b'"a ""word"", b",x\r\n', b'"two\r\n\r\nlines",y\r\n', b"d\xe9j\xe0 vu,x\r\n", b'"",y\r\n', b"the end,x"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_split_files_keep_the_bytes_of_rows(tmp_path, is_packed):
    head, path = b'\xef\xbb\xbftext,"label"\r\n', tmp_path / ("a.CSV.gz" if is_packed else "a.csv")
    data = head + b"".join(ROWS) + b"\r\n\r\n"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    done = split_table(str(path), str(tmp_path / "p"), 0.4)
    found = []
    for name, output in done.paths.items():
        assert output == str(tmp_path / "p" / f"{name}.csv{'.gz' if is_packed else ''}")
        written = pathlib.Path(output).read_bytes()
        written = gzip.decompress(written) if is_packed else written
        assert written.startswith(head) and not written.endswith(b"\r\n\r\n")
        found.append(written.removeprefix(head))
    assert sum(map(len, found)) == sum(map(len, ROWS)) + 2 and all(any(row in part for part in found) for row in ROWS)


def test_without_a_header_the_mark_is_repeated_and_the_end_added(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b'\xef\xbb\xbf"one\tx\ntwo\ty\nthree\tx')
    columns = Columns(text=("0",), label="1", header=False)
    done = split_table(str(tmp_path / "a.tsv"), str(tmp_path / "p"), 0.3, columns=columns)
    found = [pathlib.Path(path).read_bytes() for path in done.paths.values()]
    assert all(each.startswith(b"\xef\xbb\xbf") and each.endswith(b"\n") for each in found)
    assert sorted(b"".join(each[3:] for each in found).splitlines()) == [b'"one\tx', b"three\tx", b"two\ty"]


def test_a_table_may_have_no_labels_and_pairs_for_texts(tmp_path):
    rows = [("one", "a"), ("one", "b"), (" One", "B"), ("two", "a")]
    table = _write(tmp_path / "a.csv", rows, ("text", "other"))
    done = split_table(table, str(tmp_path / "p"), 0.3, columns=Columns(text=("text", "other"), label=""))
    assert done.texts.tolist() == [0, 1, 1, 3] and done.labels is None
    assert done.sizes() == [3, 1] and not any(done.counts())


def test_json_lines_and_labels_of_several_kinds(tmp_path):
    rows = [{"id": i, "text": f"text {i}", "label": [["a"], ["a", "b"]][i % 2], "more": {"x": [1, None]}}
            for i in range(20)]  # fmt: skip
    lines = [json.dumps(row, indent=None, separators=(", ", ":")) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n \n")
    done = split_table(str(tmp_path / "a.jsonl"), str(tmp_path / "p"), 0.2, columns=Columns(problem="multi_label"))
    found = [pathlib.Path(path).read_text().splitlines() for path in done.paths.values()]
    assert sorted(found[0] + found[1]) == sorted(lines)
    assert done.counts() == [{"a": 16, "b": 8}, {"a": 4, "b": 2}]


def test_parquet_keeps_values_and_schema(tmp_path):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"text": [f"t{i}" for i in range(10)], "label": pyarrow.array([0.5] * 10, "float32")})
    parquet.write_table(table, tmp_path / "a.parquet")
    done = split_table(str(tmp_path / "a.parquet"), str(tmp_path / "p"), 0.3, columns=Columns(problem="regression"))
    found = [parquet.read_table(path) for path in done.paths.values()]
    assert [each.num_rows for each in found] == [7, 3] and all(each.schema == table.schema for each in found)
    assert sorted(found[0]["text"].to_pylist() + found[1]["text"].to_pylist()) == table["text"].to_pylist()


WRONG = {
    "no share": ({"eval_share": 0.0}, "`eval_share` must be above 0.* got 0 and 0; use"),
    "nothing to train on": ({"eval_share": 0.5, "test_share": 0.5}, "their sum below 1"),
    "not a number": ({"eval_share": float("nan")}, "must be above 0"),
    "no such group": ({"columns": Columns(group="person")}, r"a\.csv:1: .*'person' \(`group_column`\)"),
    "no such label": ({"columns": Columns(label="class")}, r"'class' \(`label_column`\)"),
    "one group": ({"columns": Columns(group="label")}, r"2 are needed.* got 3 rows in 1, .*.*group_column"),
    "two groups": ({"test_share": 0.1}, "too few groups .*: 3 are needed.* got 3 rows in 2, grouped by text;"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refuses_shares_and_tables_that_cannot_be_split(tmp_path, case):
    given, message = WRONG[case]
    table = _write(tmp_path / "a.csv", [("one", "x"), ("ONE ", "x"), ("two", "x")], ("text", "label"))
    with pytest.raises(ValueError, match=message):
        split_table(table, str(tmp_path / "p"), **{"eval_share": 0.4, **given})
    assert not (tmp_path / "p").exists()


def test_existing_files_are_not_overwritten(tmp_path):
    table = _write(tmp_path / "a.csv", [("one", "x"), ("two", "x")], ("text", "label"))
    (tmp_path / "test.csv").write_text("old")
    with pytest.raises(ValueError, match=r"`output_dir` must not contain .* which contains test\.csv; remove it"):
        split_table(table, str(tmp_path), 0.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "test.csv"]


def test_all_files_appear_or_none(tmp_path, monkeypatch):
    table = _write(tmp_path / "a.csv", [("one", "x"), ("two", "x")], ("text", "label"))
    real, ended = os.replace, []

    def replace(aside, path):
        if ended:
            raise OSError(28, "No space left on device")
        ended.append(path)
        real(aside, path)

    monkeypatch.setattr("bert_tf.utils.files.os.replace", replace)
    with pytest.raises(OSError, match="No space left"):
        split_table(table, str(tmp_path / "p"), 0.5)
    assert ended and not (tmp_path / "p").exists()


def test_other_separators_and_encodings_are_copied(tmp_path):
    rows = [f"größe {i};{'x' if i % 2 else 'y'}" for i in range(10)]
    (tmp_path / "a.csv").write_bytes("\n".join(["text;label", *rows]).encode("cp1252"))
    made = split_table(f"{tmp_path}/a.csv", f"{tmp_path}/p", 0.2, columns=Columns(dialect=Dialect(";", "cp1252")))
    parts = [(tmp_path / "p" / name).read_text(encoding="cp1252").splitlines() for name in ("train.csv", "eval.csv")]
    assert [len(part) for part in parts] == [9, 3] and made.counts() == [{"x": 4, "y": 4}, {"x": 1, "y": 1}]
    assert sorted(line for part in parts for line in part[1:]) == sorted(rows) and parts[1][0] == "text;label"


def test_refuses_bytes_that_cannot_be_copied_and_several_files(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x\n", encoding="utf-16")
    with pytest.raises(ValueError, match="`encoding=utf-16` cannot be split, because rows are copied up to a"):
        split_table(f"{tmp_path}/a.csv", f"{tmp_path}/p", 0.2, columns=Columns(dialect=Dialect(encoding="utf-16")))
    (tmp_path / "b.csv").write_text("text,label\na,x\n")
    with pytest.raises(ValueError, match="b.csv must be one file, because rows are copied"):
        split_table(f"{tmp_path}/a.csv,{tmp_path}/b.csv", f"{tmp_path}/p", 0.2)


def test_folds_share_no_text_and_are_stratified(tmp_path):
    rows = _rows(300)
    path = _write(tmp_path / "all.csv", rows)
    paths, fold_of = split_folds(path, str(tmp_path / "folds"), 5)
    assert np.bincount(fold_of).tolist() == [60] * 5 and paths[1][1].endswith("folds/2/eval.csv")
    for fold, (train, held_out) in enumerate([map(_read, pair) for pair in paths]):
        assert held_out == [row for row, own in zip(rows, fold_of, strict=True) if own == fold]
        assert train == [row for row, own in zip(rows, fold_of, strict=True) if own != fold]
        assert not list(text_checks.find_overlap(_sample(train), _sample(held_out)))
        for label in ("good", "bad", "odd"):
            assert abs(sum(row[1] == label for row in held_out) - sum(row[1] == label for row in rows) / 5) <= 2
    assert np.array_equal(split_folds(path, str(tmp_path / "folds"), 5)[1], fold_of)  # the files are there already
    assert not np.array_equal(split_folds(path, str(tmp_path / "others"), 5, seed=1)[1], fold_of)
    of_users = _write(tmp_path / "users.csv", [(f"text {i}", "good", f"u{i % 7}") for i in range(40)])
    grouped = split_folds(of_users, str(tmp_path / "users"), 2, Columns(group="user"))[0]
    users = [{row[2] for row in _read(held_out)} for _, held_out in grouped]
    assert users[0] and not users[0] & users[1]
    with pytest.raises(ValueError, match="too few groups of rows to split: 3 are needed"):
        split_folds(_write(tmp_path / "few.csv", rows[:2]), str(tmp_path / "few"), 3)
