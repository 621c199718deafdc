"""Every format gives the same rows, part by part, and is never held whole."""

import gzip
import json
import tracemalloc

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.data.dialect import Dialect
from bert_tf.inference.batch_prediction.input_table import InputTable, expand_columns

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
    found = table.summary()
    parts = list(table.parts(3, found.count))
    assert [number for number, _ in parts] == [0, 1] and found.count == 4 and found.missing == 0
    assert [text for _, rows in parts for text in rows.texts[0]] == TEXTS
    assert [each for _, rows in parts for each in rows.ids] == (list("0123") if ids is None else list("wxyz"))
    assert found.digest == InputTable(str(write(tmp_path, f"again-{name}")), id_column=ids).summary().digest


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


@pytest.mark.parametrize(
    "name",
    ["a.csv", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a.txt", "a.tsv", "a.jsonl.gz", "a.parquet"))],
)
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
    with pytest.raises(ValueError, match="a.jsonl:2: a text must be a string; got 5 in column 'text'"):
        InputTable(str(path)).summary()


EMPTY = ["x", "", None, " \t", "y"]


def test_empty_texts_count_as_null_where_it_is_asked_for(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in EMPTY))
    found = InputTable(str(path)).summary()
    assert (found.total, found.count, found.missing, found.lines) == (5, 5, 1, (3,))
    table = InputTable(str(path), on_null="null")
    found = table.summary()
    assert (found.total, found.count, found.missing, found.lines) == (5, 5, 3, (2, 3, 4))
    assert [rows.missing for _, rows in table.parts(5, 5)] == [(False, True, True, True, False)]
    path.write_text('{"text": ""}\n')
    with pytest.raises(ValueError, match="has no texts: all 1 row are null or empty"):
        InputTable(str(path), on_null="skip").summary()


def test_rows_that_are_skipped_keep_their_number(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in EMPTY))
    table = InputTable(str(path), on_null="skip")
    found = table.summary()
    assert (found.total, found.count, found.missing) == (5, 2, 3)
    (_, rows), = table.parts(5, found.count)
    assert rows.ids == ["0", "4"] and rows.texts == (["x", "y"],) and rows.missing == ()


def test_of_several_texts_one_may_be_empty_but_not_null(tmp_path):
    path = tmp_path / "a.jsonl"
    pairs = [("", ["a"]), ("x", ["", ""]), ("", ["", " "]), ("", []), ("x", []), (None, ["a"])]
    path.write_text("\n".join(json.dumps({"context": text, "choices": more}) for text, more in pairs))
    table = InputTable(str(path), ("context", "choices"), ("choices",), on_null="null")
    assert table.summary().lines == (3, 4, 5, 6)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.tsv", "a.csv"])
def test_an_id_keeps_its_name_and_type(tmp_path, name):
    ids = [7, 8, 2**40]
    if name == "a.parquet":
        parquet.write_table(pa.table({"number": ids, "text": ["a", "b", "c"]}), tmp_path / name)
    else:
        between = "," if name == "a.csv" else "\t"
        lines = [between.join(("number", "text")), *(f"{n}{between}x" for n in ids)]
        lines = [json.dumps({"number": n, "text": "x"}) for n in ids] if name == "a.jsonl" else lines
        (tmp_path / name).write_text("\n".join(lines))
    for column in ("number",) if name == "a.jsonl" else ("number", "0"):
        ((_, rows),) = InputTable(str(tmp_path / name), id_column=column).parts(3, 3)
        assert rows.id_name == "number"
        assert rows.ids == (ids if name in ("a.jsonl", "a.parquet") else list(map(str, ids)))
    (tmp_path / "b.tsv").write_text("7\tx\n")
    ((_, rows),) = InputTable(str(tmp_path / "b.tsv"), ("1",), id_column="0", header=False).parts(1, 1)
    assert (rows.id_name, rows.ids) == ("id", ["7"])


def test_all_other_columns(tmp_path):
    (tmp_path / "a.tsv").write_text("n\ttext\tday\tlabel\n1\tx\ty\tz\n")
    path = str(tmp_path / "a.tsv")
    assert expand_columns(["*"], path, True, ["text"]) == ("n", "day", "label")
    assert expand_columns(["*", "text"], path, True, ["text", "0"]) == ("day", "label", "text")
    assert expand_columns(["*", "3"], path, True, ["1"]) == ("n", "day", "3")
    assert expand_columns(["*"], path, False, ["1"]) == ("0", "2", "3")
    assert expand_columns(["day"], path, True, ["text"]) == ("day",)
    (tmp_path / "a.jsonl").write_text('{"text": "x", "n": 1}\n')
    assert expand_columns(["*"], str(tmp_path / "a.jsonl"), True, ["text"]) == ("n",)
    with pytest.raises(ValueError, match="`keep_columns=[*]` requires a table as `input_file`; .* one text per line"):
        expand_columns(["*"], str(tmp_path / "a.txt"), True, ["text"])


def test_types_of_copied_columns(tmp_path):
    rows = [{"text": "x", "a": 1, "b": "u"}, {"text": "x", "a": 2.5, "b": None}, {"text": "x", "a": None, "b": 3}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = InputTable(str(tmp_path / "a.jsonl"), id_column="text", keep_columns=("a", "b"))
    assert table.summary().types == {"text": {"text": 1}, "a": {"number": 1}, "b": {"text": 1, "number": 3}}
    assert table.arrow_types() == {}
    schema = {"n": pa.int32(), "text": pa.string(), "when": pa.timestamp("ms")}
    parquet.write_table(pa.table({name: pa.nulls(1, kind) for name, kind in schema.items()}), tmp_path / "a.parquet")
    table = InputTable(str(tmp_path / "a.parquet"), id_column="0", keep_columns=("when", "1"))
    assert table.arrow_types() == {"n": pa.int32(), "when": pa.timestamp("ms"), "1": pa.string()}
