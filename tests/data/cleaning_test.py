"""Cleaning: what is found, what is corrected, and that everything else stays as it was."""

import gzip
import json

import pytest

from bert_tf.data.cleaning import clean_table
from bert_tf.data.dialect import Dialect
from bert_tf.data.tables import read_table
from bert_tf.utils.names import CLEANING_KINDS

SENTENCE = "It is a long sentence about a film that was made in the country."
ROWS = [
    ("Tom &amp;amp; Jerry", "a", "1"),
    ("a\u00a0b\u200b, \x07c \U0001f468\u200d\U0001f33e", "pos\u00a0", '"2"'),
    (" ", "a", "3"),
    ("q", "NULL", "4"),
    ("tom & JERRY", "a", "5"),
    ("tom & JERRY", "b", "6"),
    (SENTENCE, "b", "7\n"),
    (SENTENCE + "!", "b", "8"),
    ("see ?a=1&copy=2 &nosuch; &notify;", "none", "9"),
]
CLEAN = [
    ("Tom & Jerry", "a", "1"),
    ("a b, c \U0001f468\u200d\U0001f33e", "pos", '"2"'),
    ("tom & JERRY", "b", "6"),
    (SENTENCE, "b", "7\n"),
    (SENTENCE + "!", "b", "8"),
    ("see ?a=1&copy=2 &nosuch; &notify;", "none", "9"),
]
NAMES = ("text", "label", "more")


def write(path, rows, separator=",", encoding="utf-8"):
    kind = path.name.split(".", 1)[1]
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
        parquet.write_table(pa.table({**columns, "number": pa.array(range(len(rows)), pa.int8())}), path)
        return str(path)
    if kind == "jsonl":
        text = "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows)
    else:
        cells = [['"{}"'.format(cell.replace('"', '""')) for cell in row] for row in (NAMES, *rows)]
        text = "".join(separator.join(row) + "\r\n" for row in cells)
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data, mtime=0) if kind.endswith("gz") else data)
    return str(path)


def read(path):
    """Returns the rows of a table, all of its columns."""
    both = read_table(path, text_columns=("text", "more"), label_column="label")
    return list(zip(both.text_a, both.labels, both.text_b, strict=True))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_a_new_table_has_what_was_corrected_and_everything_else(tmp_path, name):
    path, output = write(tmp_path / name, ROWS), str(tmp_path / f"out-{name}")
    before = (tmp_path / name).read_bytes()
    report = clean_table(path, output)
    assert read(output) == CLEAN and (tmp_path / name).read_bytes() == before
    assert (report.rows, report.kept) == (9, 6)
    assert [(each.kind, each.count, each.is_fixed) for each in report.findings] == [
        ("html_entities", 1, True), ("control_characters", 1, True), ("special_spaces", 2, True),
        ("label_spaces", 1, True), ("null_labels", 1, True), ("empty_texts", 1, True), ("duplicates", 1, True),
        ("near_duplicates", 1, False),
    ]  # fmt: skip
    if name == "a.parquet":
        from pyarrow import parquet

        table = parquet.read_table(output)
        assert table["number"].to_pylist() == [0, 1, 5, 6, 7, 8] and str(table["number"].type) == "int8"
    if name == "a.csv":
        entities, *_, again, near = report.findings
        assert entities.examples == [
            {"position": f"{path}:2", "before": "Tom &amp;amp; Jerry", "after": "Tom & Jerry", "earlier": None}
        ]
        assert (again.examples[0]["position"], again.examples[0]["earlier"]) == (f"{path}:6", f"{path}:2")
        assert (near.examples[0]["position"], near.examples[0]["earlier"]) == (f"{path}:10", f"{path}:8")


def test_the_output_of_a_text_table_has_the_form_of_its_extension(tmp_path):
    path = write(tmp_path / "a.csv", ROWS[:1], ";", "utf-16")
    clean_table(path, str(tmp_path / "b.csv"), dialect=Dialect(";", "utf-16"))
    assert (tmp_path / "b.csv").read_bytes() == b"text,label,more\nTom & Jerry,a,1\n"
    (tmp_path / "a.tsv").write_bytes("é&#9;x|y|1\n".encode("cp1252"))
    clean_table(str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv"), (0,), 1, False, Dialect("|", "cp1252"))
    assert (tmp_path / "b.tsv").read_text(encoding="utf-8") == "é x\ty\t1\n"


def test_each_kind_is_chosen(tmp_path):
    path, output = write(tmp_path / "a.csv", ROWS), str(tmp_path / "b.csv")
    for kind in CLEANING_KINDS:
        report = clean_table(path, output, fix=(kind,), overwrite=True)
        assert {each.kind for each in report.findings if each.is_fixed} == {kind}
        dropped = kind in ("null_labels", "empty_texts", "near_duplicates")
        assert len(read(output)) == 9 - dropped == report.kept, kind  # Jerry is no duplicate with the entity
    assert clean_table(path, output, fix=(), overwrite=True).kept == 9
    assert read(output) == ROWS


def test_rows_without_labels_are_compared_by_text(tmp_path):
    report = clean_table(write(tmp_path / "a.jsonl", ROWS), None, label_column=None)
    assert {each.kind: each.count for each in report.findings}["duplicates"] == 2
    assert not (tmp_path / "b.jsonl").exists()


def test_a_row_with_an_empty_label_is_dropped(tmp_path):
    path = write(tmp_path / "a.csv", [("a", "b", "1"), ("c", " ", "2"), ("d", "", "3")])
    report = clean_table(path, str(tmp_path / "b.csv"))
    assert read(str(tmp_path / "b.csv")) == [("a", "b", "1")] and report.findings[4].count == 2


def test_spaces_around_a_label_make_no_other_label(tmp_path):
    path, output = write(tmp_path / "a.csv", [("a", "good ", "1"), ("b", "\tgood", "2")]), str(tmp_path / "b.csv")
    assert [label for _, label, _ in read(path)] == ["good ", "\tgood"]
    spaces = next(each for each in clean_table(path, output).findings if each.kind == "label_spaces")
    assert read(output) == [("a", "good", "1"), ("b", "good", "2")]
    assert spaces.count == 2 and spaces.examples[0]["after"] == "good"


def test_outputs_that_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", ROWS)
    (tmp_path / "b.csv").write_text("old")
    for output, words in (
        ("a.csv", "`output_file` must not be the input file"),
        ("b.csv", "`output_file` must not exist yet.*or set `overwrite`"),
        ("b.jsonl", "`output_file` must end in .csv, like "),
    ):
        with pytest.raises(ValueError, match=words):
            clean_table(path, str(tmp_path / output))
    with pytest.raises(ValueError, match="must not be the input file"):
        clean_table(path, path, overwrite=True)
    assert (tmp_path / "b.csv").read_text() == "old"
    with pytest.raises(ValueError, match=r"missing column 'no' \(`label_column`\)"):
        clean_table(path, None, label_column="no")


@pytest.mark.parametrize("entities", [{"entities": [{"start": 0, "end": 1, "type": "X"}]}, {"label": [[0, 1, "X"]]}])
def test_annotated_texts_are_refused(tmp_path, entities):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a &amp; b", "label": "x"} | entities))
    with pytest.raises(ValueError, match="a.jsonl:1: texts with entities cannot be cleaned, because the offsets"):
        clean_table(str(tmp_path / "a.jsonl"), None)


def test_a_separator_that_a_file_does_not_have_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(ValueError, match="`separator` applies only to .csv and .tsv files"):
        clean_table(path, None, dialect=Dialect(";"))
