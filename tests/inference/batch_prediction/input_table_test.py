"""Every format gives the same rows, part by part, and is never held whole."""

import gzip
import json
import tracemalloc

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.data.dialect import Dialect
from bert_tf.inference.batch_prediction.input_table import InputTable

TEXTS = ["a film", "", 'stray " quote, and comma', "\u2028 é \x0b"]


def write(folder, name):
    if name.endswith(".parquet"):
        parquet.write_table(pa.table({"n": ["w", "x", "y", "z"], "text": TEXTS}), folder / name, row_group_size=3)
        return folder / name
    if "tsv" in name:
        lines = ["n\ttext", *(f"{n}\t{text}" for n, text in zip("wxyz", TEXTS, strict=True))]
    elif "csv" in name:
        quoted = [text.replace('"', '""') for text in TEXTS]
        lines = ["n,text", *(f'{n},"{text}"' for n, text in zip("wxyz", quoted, strict=True))]
    elif "jsonl" in name:
        lines = [json.dumps({"n": n, "text": text}) for n, text in zip("wxyz", TEXTS, strict=True)]
    else:
        lines = TEXTS
    data = ("\ufeff" + "\r\n".join(lines) + "\r\n").encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name


@pytest.mark.parametrize("name", ["a.txt", "b.gz", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_every_format_gives_the_same_rows(tmp_path, name):
    ids = None if name in ("a.txt", "b.gz") else "n"
    table = InputTable(str(write(tmp_path, name)), id_column=ids)
    count, digest, missing, _ = table.summary()
    parts = list(table.parts(3, count))
    assert [number for number, _ in parts] == [0, 1] and count == 4
    assert [text for _, rows in parts for text in rows.texts[0]] == TEXTS
    assert [each for _, rows in parts for each in rows.ids] == (list("0123") if ids is None else list("wxyz"))
    assert digest == InputTable(str(write(tmp_path, f"again-{name}")), id_column=ids).summary().digest and missing == 0


def test_a_blank_line_of_text_is_a_row_and_the_last_line_feed_is_none(tmp_path):
    path = tmp_path / "a.txt"
    for content, expected in (("a\n\nb", ["a", "", "b"]), ("a\n\n", ["a", ""]), ("\n", [""])):
        path.write_text(content)
        count = InputTable(str(path)).summary().count
        assert [rows.texts[0] for _, rows in InputTable(str(path)).parts(9, count)] == [expected]


def test_other_separators_and_encodings(tmp_path):
    (tmp_path / "a.csv").write_text("n;text\nx;é, a\n", encoding="cp1252")
    table = InputTable(str(tmp_path / "a.csv"), id_column="n", dialect=Dialect(";", "cp1252"))
    assert [(rows.ids, rows.texts[0]) for _, rows in table.parts(1, 1)] == [(["x"], ["é, a"])]
    (tmp_path / "a.txt").write_text("é\nb", encoding="utf-16")
    table = InputTable(str(tmp_path / "a.txt"), dialect=Dialect(encoding="utf-16"))
    assert table.summary().count == 2 and next(table.parts(2, 2))[1].texts[0] == ["é", "b"]


def test_what_is_dropped_is_said_once(tmp_path, caplog):
    (tmp_path / "a.tsv").write_bytes(b"text\nna\xefve\n")
    table = InputTable(str(tmp_path / "a.tsv"))
    count = table.summary().count
    assert [rows.texts[0] for _, rows in table.parts(1, count)] == [["nave"]]
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "dropped 1 byte that is not UTF-8, in 1 line."
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv", "a.jsonl.gz", "a.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    peaks = []
    for n in (1_500, 6_000):
        texts = [f"{i} a text of some length" for i in range(n)]
        if name.endswith(".parquet"):
            parquet.write_table(pa.table({"text": texts}), tmp_path / name)
        else:
            head = {"a.tsv": "text\n", "a.csv": "text\n"}.get(name, "")
            lines = [json.dumps({"text": text}) if "jsonl" in name else text for text in texts]
            data = (head + "\n".join(lines)).encode()
            (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        table = InputTable(str(tmp_path / name))
        tracemalloc.start()
        count = table.summary().count
        assert sum(len(rows.ids) for _, rows in table.parts(500, count)) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_rows_without_a_text_are_counted_and_others_stand_in_for_them(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [("a", ["x"]), (None, ["y"]), ("c", ["z", None]), (float("nan"), None), (None, None), ("f", ["u", "v"])]
    path.write_text("\n".join(json.dumps({"text": text, "more": more}) for text, more in rows))
    table = InputTable(str(path), ("text", "more"), ("more",), keep_columns=("text",))
    found = table.summary()
    assert (found.count, found.missing, found.lines) == (6, 4, (2, 3, 4, 5))
    (_, first), (_, second), (_, last) = table.parts(2, 6)
    assert first.texts == (["a", "a"], [["x"], ["x"]]) and first.missing == (False, True)
    assert second.texts == (["", ""], [["", ""]] * 2) and second.missing == (True, True)
    assert last.texts == (["f", "f"], [["u", "v"]] * 2) and last.missing == (True, False)
    assert first.kept == {"text": ["a", None]} and last.ids == ["4", "5"]
    path.write_text('{"text": null}\n' * 2)
    with pytest.raises(ValueError, match="has no texts: all 2 rows are null. Check `text_"):
        InputTable(str(path)).summary()
    path.write_text('{"text": null}\n{"text": 5}\n')
    with pytest.raises(ValueError, match="a.jsonl:2: a text must be a string. Received: 5 in column 'text'"):
        InputTable(str(path)).summary()
