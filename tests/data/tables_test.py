"""Promises of bert_tf.data.tables: every format gives the same examples, every bad file one message with its line."""

import gzip
import json
import os
import re
import subprocess
import sys

import pytest

from bert_tf.data import columns
from bert_tf.data.dialect import Dialect
from bert_tf.data.table_reader import names_in
from bert_tf.data.tables import LabeledTexts, check_labels, list_labels, read_table
from tests.data.hostile_parquet import crafted_parquet

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = [
    ("a film", "one line", "pos"),
    ('stray " quote', "two, commas", "neg"),
    ("Größe ½ \u2028 \x0b \x85 end", "", "pos"),
]


def write(tmp_path, name, text):
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def write_rows(tmp_path, name):
    """Writes ROWS in the format that the name tells, with the columns first, second, label."""
    names = ("first", "second", "label")
    if name.endswith(".parquet"):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True))), tmp_path / name)
        return str(tmp_path / name)
    if ".jsonl" in name:
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in ROWS]
    elif ".tsv" in name:
        lines = ["\t".join(row) for row in (names, *ROWS)]
    else:
        lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in (names, *ROWS)]
    return write(tmp_path, name, "\ufeff" + "\n".join(lines) + "\n")


FORMATS = ["a.tsv", "a.csv", "a.jsonl", "a.parquet", "a.tsv.gz", "a.csv.gz", "a.jsonl.gz"]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_reads_column_names_of_every_format(tmp_path, name):
    assert names_in(write_rows(tmp_path, name)) == ["first", "second", "label"]


def test_column_names_of_an_unreadable_file_are_empty(tmp_path):
    for name in ("a.tsv", "a.csv", "a.jsonl", "a.parquet", "a.txt"):
        assert names_in(str(tmp_path / name)) == []  # read_table says what is wrong
    for name, text in (("b.csv", 'a,"b'), ("b.jsonl", "[1]"), ("b.parquet", "PAR1")):
        assert names_in(write(tmp_path, name, text)) == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_examples(tmp_path, name):
    path = write_rows(tmp_path, name)
    got = read_table(path, text_columns=["first", "second"], label_column="label")
    first, second, labels = (list(column) for column in zip(*ROWS, strict=True))
    start = 2 if ".tsv" in name or ".csv" in name else 1
    assert got == LabeledTexts(["0", "1", "2"], first, second, labels, path, [start, start + 1, start + 2])
    one = read_table(path, text_columns=["second"], id_column="first")
    assert one == LabeledTexts(first, second, None, None, path, got.lines) and len(one) == 3


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.parquet"])
def test_columns_by_index(tmp_path, name):
    got = read_table(write_rows(tmp_path, name), text_columns=[1], label_column="2")
    assert got.text_a == [row[1] for row in ROWS] and got.labels == ["pos", "neg", "pos"]


def test_a_name_of_digits_is_a_name_and_a_number_is_an_index(tmp_path):
    path = write(tmp_path, "a.csv", "1,0\nleft,right\n")
    assert read_table(path, text_columns=["0"]).text_a == ["right"]
    assert read_table(path, text_columns=[0]).text_a == ["left"]


def test_without_header_and_with_windows_line_ends(tmp_path):
    path = write(tmp_path, "a.TSV", "good\t1\r\nbad\t0\r\n\r\n\n")
    got = read_table(path, header=False, text_columns=["0"], label_column=1)
    assert (got.text_a, got.labels, got.lines) == (["good", "bad"], ["1", "0"], [1, 2])


def test_tsv_keeps_quotes_nul_and_carriage_returns_inside(tmp_path):
    path = write(tmp_path, "a.tsv", 'text\n"open \x00 a\rb\n""x""\n')
    assert read_table(path).text_a == ['"open \x00 a\rb', '""x""']


def test_csv_quoting_and_fields_of_any_length(tmp_path):
    long = "x" * 200_000
    path = write(tmp_path, "a.csv", f'text,label\r\n"a ""b"", c\r\nd",1\r\n{long},0\r\n')
    got = read_table(path, label_column="label")
    assert (got.text_a, got.labels, got.lines) == (['a "b", c\r\nd', long], ["1", "0"], [2, 4])


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a b.csv.gz"])
def test_bare_carriage_returns_are_named_with_the_command_that_converts_them(tmp_path, name):
    rows = {"csv": ("text,label", "a,x"), "tsv": ("text\tlabel", "a\tx"), "jso": ('{"text": 1}', '{"text": 2}')}
    first, second = rows[name.split(".")[1][:3]]
    path = write(tmp_path, name, f"{first}\r{second}\r")
    stem, extension = re.escape(str(path).removesuffix(".gz").rsplit(".", 1)[0]), name.split(".")[1]
    packed = name.endswith(".gz")
    command = rf"gzip -dc '{stem}\.csv\.gz' \| tr" if packed else rf"tr < {stem}\.{extension}"
    quote = "'" if packed else ""
    with pytest.raises(ValueError, match=r":1: lines must end in a line feed \(LF\) or in CR LF; got a bare "
                       rf"carriage return \(CR\) after {re.escape(repr(first))}; convert the file: {command} '\\r' "
                       rf"'\\n' > {quote}{stem}-lf\.{extension}{quote}\.$"):  # fmt: skip
        read_table(path, label_column="label")


def test_a_bare_carriage_return_later_in_a_csv_is_named_with_its_line(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n"quoted \r and\nfed",x\na\rb,x\n')
    with pytest.raises(ValueError, match=r"a\.csv:4: lines must end .* bare carriage .* after 'a'; convert"):
        read_table(path, label_column="label")


def test_a_quoted_newline_does_not_shift_the_line_of_an_error(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n"one\ntwo\nthree",1\nfour\n')
    with pytest.raises(
        ValueError, match=r"a\.csv:5: a row must have at least 2 columns, separated by commas.*got 1"
    ):
        read_table(path, label_column="label")


def test_numbers_become_their_text_and_equal_ones_are_one(tmp_path, caplog):
    lines = "".join(f'{{"text": "a", "label": {label}}}\n' for label in ("1", "0.5", "1.0", "true", '"x"'))
    with caplog.at_level("INFO", logger="absl"):
        got = read_table(write(tmp_path, "a.jsonl", lines), label_column="label")
    assert got.labels == ["1", "0.5", "1", "true", "x"]
    assert "a.jsonl: whole-number labels are named without their fraction: 1.0 becomes '1'." in caplog.text


@pytest.mark.parametrize(
    "kind, values, names",
    [("float32", [0.1, 1.0], ["0.1", "1"]), ("int8", [1, 0], ["1", "0"]), ("bool", [1, 0], ["true", "false"])],
)
def test_reads_labels_from_parquet(tmp_path, kind, values, names):
    pa = pytest.importorskip("pyarrow")
    import numpy as np
    from pyarrow import parquet

    table = pa.table({"text": ["a", "b"], "label": np.array(values, kind)})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", label_column="label").labels == names


def test_bad_unicode_is_dropped_and_logged(tmp_path, caplog):
    path = write(tmp_path, "a.tsv", b"text\nna\xefve\n")
    assert read_table(path).text_a == ["nave"]
    path = write(tmp_path, "a.jsonl", '{"text": "half \\ud83d, whole \\ud83d\\ude00"}\n')
    assert read_table(path).text_a == ["half , whole 😀"]
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "dropped 1 byte that is not UTF-8, in 1 line.",
        "dropped lone surrogates, which UTF-8 cannot represent, in 1 line.",
    ]


LABELLED = {"label_column": "label"}
NO_HEADER = {"header": False, "text_columns": ["0"], "label_column": "1"}
BAD = {  # name, content, arguments of read_table, the message after the directory
    "no column": ("a.tsv", "x\ty\n1\t2\n", {}, r"a\.tsv:1: missing column 'text' \(`text_column`\)\. Found "
                  r"the columns \['x', 'y'\]; choose one with `text_column`, or set `header=false`"),
    "no label column": ("a.csv", "text\nx\n", LABELLED, r"a\.csv:1: .*'label' \(`label_column`\).*\['text'\]"),
    "no column at all": ("a.csv", "review,stars\nx,1\n", LABELLED, r"a\.csv:1: missing columns 'text' "
                         r"\(`text_column`\) and 'label' \(`label_column`\)\. Found the columns \['review', 's.*; "
                         r"choose them with `text_column` and `label_column`, or set `header=false`"),
    "no key at all": ("a.jsonl", '{"review": "x"}\n', LABELLED, r"a\.jsonl:1: missing columns 'text' .* and 'l"),
    "index too high": ("a.tsv", "text\nx\n", {"text_columns": [3]}, r"a\.tsv:1: missing column 3 "),
    "negative": ("a.tsv", "text\nx\n", {"text_columns": [-1]}, r"a\.tsv:1: missing column -1 "),
    "name without header": ("a.tsv", "x\n", {"header": False}, r"`text_column` must be an index from 0.* got 'text'"),
    "negative without header": ("a.tsv", "x\n", {"header": False, "text_columns": ["-1"]}, r"index from 0.*'-1'"),
    "twice": ("a.csv", "text,text\nx,y\n", {}, r"a\.csv:1: column names must be unique; .*'text' more than once"),
    "short row": ("a.tsv", "good\t1\nbad 0\n", NO_HEADER, r"a\.tsv:2: a row must have at least 2 columns, separated by "
                  r"tabs; got 1: \['bad 0'\]; correct this line, or check `text_column` and `label_column`"),
    "stray tab": ("a.tsv", "text\tlabel\ngood\tfilm\t1\n", LABELLED, r"a\.tsv:2: a row must have the 2 columns of "
                  r"line 1, separated by tabs; got 3: .*remove stray tabs"),
    "stray comma": ("a.csv", "text,label\nA nice, warm film,1\n", LABELLED, r"a\.csv:2: .*the 2 columns of line 1, "
                    r"sep.*got 3: .*double quotes"),
    "blank line": ("a.tsv", "text\nx\n\ny\n", {}, r"a\.tsv:3: .*at least 1 column,.*got 0"),
    "blank csv line": ("a.csv", "text\nx\n\ny\n", {}, r"a\.csv:3: .*at least 1 column,.*got 0"),
    "empty": ("a.tsv", "", {}, r"a\.tsv contains no examples\. Check the path"),
    "empty without header": ("a.csv", "\n\n", NO_HEADER, r"a\.csv contains no examples\. Check the path"),
    "only header": ("a.csv", "text\n", {}, r"a\.csv .*no examples\. .*header"),
    "empty jsonl": ("a.jsonl", "", {}, r"a\.jsonl .*no examples"),
    "extension": ("a.txt", "x", {}, r"a\.txt must end in \.tsv, \.csv, .* got the name 'a\.txt'; rename"),
    "packed parquet": ("a.parquet.gz", "x", {}, r"got the name 'a\.parquet\.gz'; rename"),
    "not packed": ("a.tsv", gzip.compress(b"x"), {}, r"a\.tsv is a gzip file, not text"),
    "three columns": ("a.tsv", "x", {"text_columns": [0, 1, 2]}, r"`text_column` must name one or two columns"),
    "open quote": ("a.csv", 'text\nx\n"y\nz\n', {}, r"a\.csv:3: .* is not valid CSV.*unexpected end"),
    "after quote": ("a.csv", 'text\n"x" y\n', {}, r"a\.csv:2: .*'\"'.*double quotes"),
    "json": ("a.jsonl", '{"text": "x"}\n{"text": \n', {}, r"a\.jsonl:2: every line must be one JSON object; got "
             r"'\{\"text\":', which cannot be parsed \(.*\)\.$"),
    "deep json": ("a.jsonl", "[" * 200_000, {}, r"a\.jsonl:1: .*cannot be parsed"),
    "key twice": ("a.jsonl", '{"text": "x", "text": "y"}\n', {}, r"a\.jsonl:1: every line must be one JSON object.*"
                  r"the key 'text' occurs more than once\)\."),
    "no object": ("a.jsonl", '["x"]\n', {}, r"a\.jsonl:1: every line must be one JSON object.*got \['x'\]"),
    "no key": ("a.jsonl", '{"text": "x"}\n{"txt": "y"}\n', {}, r"a\.jsonl:2: missing column 'text'.*\['txt'\]; "
               r"choose one with `text_column`\."),
    "null text": ("a.jsonl", '{"text": null}\n', {}, r"a\.jsonl:1: a text must be a string; got None in "
                  r"column 'text'; fill it in or remove the row, or check `text_column`"),
    "three null texts": ("a.jsonl", '{"text": null}\n{"text": "x"}\n{"text": NaN}\n{"text": null}\n', {},
                         r"a\.jsonl:1: .* None in column 'text', and 2 more such lines: 3, 4; fill them in or"),
    "a null second text": ("a.jsonl", '{"a": "x", "b": "y"}\n{"a": "x", "b": null}\n', {"text_columns": ("a", "b")},
                           r"a\.jsonl:2: a text must be a string; got None in column 'b'; fill it in"),
    "number as text": ("a.jsonl", '{"text": 1}\n', {}, r"a\.jsonl:1: a text must be a string; got 1"),
    "null label": ("a.jsonl", '{"text": "x", "label": null}\n', LABELLED, r"a\.jsonl:1: every example must "
                   r"have a label, but the label here is empty; got None in column 'label'.*`label_column`"),
    "nan label": ("a.jsonl", '{"text": "x", "label": NaN}\n', LABELLED, r"a\.jsonl:1: .* is empty; got nan"),
    "empty label": ("a.tsv", "text\tlabel\nx\t1\ny\t\n", LABELLED, r"a\.tsv:3: .* label here is empty; got ''"),
    "empty labels": ("a.tsv", "text\tlabel\nx\t1\ny\t\nz\t \nu\t0\nv\t\n", LABELLED, r"a\.tsv:3: .* here is empty; "
                     r"got '' in column 'label', and 2 more such lines: 4, 6; correct these lines, drop such r"),
    "label of two lines": ("a.csv", 'text,label\nx,"1\n2"\n', LABELLED, r"a\.csv:2: a label .*got '1\\n2'"),
    "list label": ("a.jsonl", '{"text": "x", "label": [1]}\n', LABELLED, r"a\.jsonl:1: a label .*got \[1\]"),
    "stray quote": ("a.tsv", 'text\tlabel\n"x\ty"\nz "w 1\n', LABELLED,
                    r'a\.tsv:3: .*got 1: .*; a stray quote \("\) '
                    r"may have swallowed a tab .* write it again without quoting, or correct this line, or check `t"),
    "one id twice": ("a.tsv", "text\tname\nx\t7\ny\t8\nz\t7\n", {"id_column": "name"},
                     r"a\.tsv:4: the ids of a file must "
                     r"be unique; got '7', which also occurs in .*a\.tsv:2"),
    "no such value": ("a.tsv", "text\tlang\nx\ten\n", {"only": ("lang", "de")},
                      r"a\.tsv has no row with 'de' in column 'lang'\. "
                      r"Choose one of: \['en'\]"),
    "no number": ("a.tsv", "text\tlabel\nx\t1.5\ny\tgood\n", LABELLED | {"label": columns.number()},
                  r"a\.tsv:3: the score "
                  r"must be a number; got 'good' in column 'label'; correct this line, or check `label_column`"),
    "out of range": ("a.jsonl", '{"text": "x", "label": 6}\n', LABELLED | {"label": columns.number(0, 5)},
                     r"a\.jsonl:1: the "
                     r"score must be a number from 0 to 5; got 6"),
    "empty name": ("a.tsv", "text\tlabel\nx\ta,,b\n", LABELLED | {"label": columns.several(",")},
                   r"a\.tsv:2: labels must "
                   r"be names separated by ',' .*got 'a,,b'"),
    "null labels": ("a.jsonl", '{"text": "x", "label": null}\n', LABELLED | {"label": columns.several(",")},
                    r"a\.jsonl:1: "
                    r"labels must be names .*got None"),
    "broken parquet": ("a.parquet", "PAR1 no", {}, r"a\.parquet is not a complete Parquet file: .*Write"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_end_with_file_line_and_remedy(tmp_path, case):
    name, content, arguments, words = BAD[case]
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=words) as error:
        read_table(write(tmp_path, name, content), **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["nope.tsv", "nope.parquet"])
def test_missing_file_and_directory(tmp_path, name):
    with pytest.raises(ValueError, match=f"File not found: .*{name}"):
        read_table(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="is a directory, not a file"):
        read_table(tmp_path / name)


def test_parquet_errors_name_the_row(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["a", None], "label": ["x", "y"]}), path)
    with pytest.raises(ValueError, match=r"a\.parquet: row 2: a text must be a string; got None"):
        read_table(path)
    with pytest.raises(
        ValueError, match=r"a\.parquet: missing column 'sentence'.*\['text', 'label'\]; choose one"
    ):
        read_table(path, text_columns=["sentence"])
    path.write_bytes(path.read_bytes().replace(b"a", b"\xff"))
    with pytest.raises(ValueError, match="is not a complete Parquet file") as error:
        read_table(path)
    assert "\n" not in str(error.value)
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    with pytest.raises(ValueError, match="contains no examples"):
        read_table(path)
    twice = pa.Table.from_arrays([pa.array([cell]) for cell in "abx"], names=["text", "text", "label"])
    parquet.write_table(twice, path)
    assert read_table(path, text_columns=[1]).text_a == ["b"]


def test_crafted_parquet_files_are_read_or_refused(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["a", "b"] * 9, "label": ["x", "y"] * 9}), path, compression="none")
    crafted, refused = list(crafted_parquet(path.read_bytes()).values())[::20], 0
    for make in crafted:
        path.write_bytes(make())
        try:
            read_table(path)
        except ValueError:
            refused += 1
    assert len(crafted) >= 30 and refused > len(crafted) / 4


def test_the_callers_remedy_replaces_the_flags(tmp_path):
    path = write(tmp_path, "a.tsv", "x\ny\n")
    with pytest.raises(ValueError, match=r"; look here\.$"):
        read_table(path, remedy="look here")
    with pytest.raises(ValueError, match=r"; look here\.$"):
        read_table(path, header=False, text_columns=[4], remedy="look here")


def test_labels_sort_as_strings_and_unknown_ones_name_their_line(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabel\na\t10\nb\t9\nc\t10\n")
    examples = read_table(path, label_column="label")
    assert list_labels(examples) == ["10", "9"]
    assert check_labels(examples, ["10", "9"]) == [0, 1, 0]
    with pytest.raises(
        ValueError, match=r"a\.tsv:3: the label must be one of those in the training data: \['10'\]; got '9'; "
    ):
        check_labels(examples, ["10"])
    with pytest.raises(ValueError, match="was read without a label column. Set `label_column`"):
        list_labels(read_table(path))


def test_reading_text_needs_neither_tensorflow_nor_pyarrow():
    code = "import sys, bert_tf.data.glue; print([m for m in ('tensorflow', 'pyarrow', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_of_one_value_keep_their_lines(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlang\tlabel\na\ten\t\nb\tde\t1\nc\ten\t\nd\tde\t0\n")
    got = read_table(path, label_column="label", only=("lang", "de"))
    assert (got.ids, got.text_a, got.labels, got.lines) == (["0", "1"], ["b", "d"], ["1", "0"], [3, 5])


def test_a_few_broken_rows_are_left_out_where_a_file_is_known_for_them(tmp_path, caplog):
    rows = [f"text {i}\t{i}" for i in range(2000)]
    path = write(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows[:1000], "half of a", "row", *rows[1000:]]))
    got = read_table(path, label_column="label", skip_short=True)
    assert got.labels == [str(i) for i in range(2000)] and got.lines[1000] == 1004
    assert "skipped 2 rows with fewer than 2 columns, the first in line 1002." in caplog.text
    with pytest.raises(ValueError, match=r"a\.tsv:1002: "):
        read_table(path, label_column="label")
    short = write(tmp_path, "b.tsv", "\n".join(["text\tlabel", *rows[:999], "half of a", "row"]))
    with pytest.raises(ValueError, match=r"b\.tsv:1001: "):
        read_table(short, label_column="label", skip_short=True)


def test_rows_without_a_label_can_be_left_out(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabel\nx\t1\ny\t\nz\tgood\nu\t0\n")
    got = read_table(path, label_column="label", label=columns.number(), skip_bad_rows=True)
    assert (got.text_a, got.labels, got.lines, got.ids) == (["x", "u"], [1.0, 0.0], [2, 5], ["0", "1"])
    assert got.bad_labels == {3: "", 4: "good"}
    none = write(tmp_path, "b.tsv", "text\tlabel\nx\tgood\n")
    with pytest.raises(ValueError, match=r"b\.tsv:2: the score must be a number"):
        read_table(none, label_column="label", label=columns.number(), skip_bad_rows=True)


def test_rows_without_a_text_can_be_left_out(tmp_path):
    rows = [("x", "1"), (None, "0"), ("y", "?"), (3, "0"), (None, "?"), ("z", "0")]
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    got = read_table(path, label_column="label", label=columns.number(), skip_bad_rows=True)
    assert (got.text_a, got.labels, got.lines, got.ids) == (["x", "z"], [1.0, 0.0], [1, 6], ["0", "1"])
    assert (got.bad_texts, got.bad_labels) == ({2: None, 4: 3, 5: None}, {3: "?"})
    none = write(tmp_path, "b.jsonl", '{"text": null, "label": 1}')
    with pytest.raises(ValueError, match=r"b\.jsonl:1: a text must be a string"):
        read_table(none, label_column="label", skip_bad_rows=True)


def test_of_many_rows_without_a_text_the_first_hundred_are_named(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "x"}\n' + '{"text": null}\n' * 150)
    with pytest.raises(ValueError, match=r"a\.jsonl:2: .*, and 149 more such lines: 3, 4, .*, 100, 101, \.\.\.; fill"):
        read_table(path)


@pytest.mark.parametrize("name, separator", [("a.csv", ";"), ("a.tsv", "|"), ("a.csv", "tab"), ("a.csv.gz", "\\t")])
@pytest.mark.parametrize("encoding", [None, "cp1252", "utf-16", "utf-16-be", "utf-8-sig"])
def test_reads_other_separators_and_encodings(tmp_path, name, separator, encoding):
    cell = "é, \u2019" if name.endswith(".tsv") else '"é, \u2019\n"'
    own = separator if len(separator) == 1 else "\t"
    text = f"label{own}text\r\nx{own}{cell}\r\ny{own}b\r\n"
    path = write(tmp_path, name, text.encode(encoding or "utf-8"))
    dialect = Dialect(separator, encoding)
    examples = read_table(path, label_column="label", dialect=dialect)
    assert examples.text_a == [cell.strip('"'), "b"] and examples.labels == ["x", "y"]
    assert names_in(path, dialect) == ["label", "text"]


@pytest.mark.parametrize(
    "name, text, dialect, words",
    [
        ("a.csv", b"text\n", Dialect(";;"), r"`separator` must be one character.*got ';;'"),
        ("a.csv", b"text\n", Dialect('"'), r"`separator` must be one character"),
        ("a.jsonl", b"{}\n", Dialect(";"), r"`separator` applies only to .csv and .tsv files; got .*a.jsonl"),
        ("a.parquet", b"", Dialect(encoding="cp1252"), r"`encoding` applies only to text files; got .*a.parquet"),
        ("a.csv", b"text\n", Dialect(encoding="rot13"), r"`encoding` must be an encoding that Python.*'rot13'"),
        ("a.csv", b"text\n", Dialect(encoding="no\0ne"), r"`encoding` must be an encoding that Python"),
        ("a.csv", b"text\na\n\xe9\n", Dialect(encoding="ascii"), r"a.csv:3: the file must be ascii.*set `enc"),
        ("a.csv", b"text\n", Dialect(encoding="utf-16"), r"a.csv:1: the file must be utf-16 text"),
        ("a.csv", "text;label\na;b;c\n", Dialect(";"), r"a.csv:2: .*by semicolons.*a field with semicolons"),
        ("a.csv", "text~label\na~b~c\n", Dialect("~"), r"a.csv:2: .*separated by '~'"),
    ],
)
def test_refuses_a_dialect_that_is_not_the_files(tmp_path, name, text, dialect, words):
    with pytest.raises(ValueError, match=words):
        read_table(write(tmp_path, name, text), dialect=dialect)


def test_several_files_are_read_as_one(tmp_path):
    write(tmp_path, "part-2.csv", "text,label\nc,x\n")
    write(tmp_path, "part-1.csv", "text,label\na,x\nb,y\n")
    write(tmp_path, "more.jsonl", '{"label": "z", "text": "d"}\n')
    paths = f"{tmp_path}/part-*.csv,{tmp_path}/more.jsonl,{tmp_path}/part-1.csv"
    examples = read_table(paths, label_column="label")
    assert (examples.text_a, examples.labels, examples.ids) == (list("abcd"), list("xyxz"), list("0123"))
    assert [examples.where(i) for i in range(4)] == [
        f"{tmp_path}/part-1.csv:2", f"{tmp_path}/part-1.csv:3", f"{tmp_path}/part-2.csv:2", f"{tmp_path}/more.jsonl:1"
    ]  # fmt: skip
    assert examples.path == paths and read_table(f"{tmp_path}/part-2*").path == f"{tmp_path}/part-2.csv"


def test_several_files_have_the_same_columns_and_distinct_ids(tmp_path):
    write(tmp_path, "a.csv", "text,label\na,x\n")
    write(tmp_path, "b.csv", "label,text\nx,a\n")
    with pytest.raises(ValueError, match=r"b.csv: files that are read together must have the same columns"):
        read_table(f"{tmp_path}/a.csv,{tmp_path}/b.csv")
    write(tmp_path, "c.csv", "a,x,1\n")
    with pytest.raises(ValueError, match=r"c.csv: files that are read together must have the same columns"):
        read_table(f"{tmp_path}/a.csv,{tmp_path}/c.csv", header=False, text_columns=(0,))
    write(tmp_path, "d.jsonl", '{"text": "a", "id": "p"}\n')
    write(tmp_path, "e.jsonl", '{"text": "b", "id": "p"}\n')
    ids = read_table(f"{tmp_path}/*.jsonl", id_column="id").ids
    assert ids == [f"{tmp_path}/d.jsonl:p", f"{tmp_path}/e.jsonl:p"]
    write(tmp_path, "e.jsonl", '{"text": "b", "id": "p"}\n{"text": "c", "id": "p"}\n')
    with pytest.raises(ValueError, match=r"e.jsonl:2: the ids of a file must be unique; got 'p'.*e.jsonl:1"):
        read_table(f"{tmp_path}/*.jsonl", id_column="id")
    with pytest.raises(ValueError, match=r"File not found: .*none-\*.csv"):
        read_table(f"{tmp_path}/a.csv,{tmp_path}/none-*.csv")


def test_drops_rows_with_an_empty_text_or_label(tmp_path, caplog):
    rows = [("a", "x"), (None, "x"), (" ", "x"), ("b", None), ("c", ""), ("d", "y")]
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in rows]
    path = write(tmp_path, "a.jsonl", "".join(lines))
    examples = read_table(path, label_column="label", drop_empty=True)
    assert (examples.text_a, examples.lines) == (["a", "d"], [1, 6])
    assert "dropped 4 rows with an empty text or label, in lines 2, 3, 4, 5." in caplog.text
    several = read_table(path, label_column="label", drop_empty=True, label=columns.several(","))
    assert several.labels == [("x",), (), ("y",)]  # an empty field is a list of no labels, null is none
    with pytest.raises(ValueError, match="all rows have an empty text or label"):
        read_table(write(tmp_path, "b.csv", "text,label\n,x\n"), label_column="label", drop_empty=True)


def test_reads_labels_from_columns_of_zeros_and_ones(tmp_path):
    path = write(tmp_path, "a.csv", "text,toxic,threat\na,1,0\nb,,TRUE\nc,false,0.0\n")
    assert read_table(path, label_columns=("toxic", "threat")).labels == [("toxic",), ("threat",), ()]
    path = write(tmp_path, "a.jsonl", '{"text": "a", "x": true, "y": 1.0}\n{"text": "b", "x": null, "y": 0}\n')
    assert read_table(path, label_columns=("x", "y")).labels == [("x", "y"), ()]
    path = write(tmp_path, "b.csv", "text,toxic,threat\na,1,0\nb,1,2\n")
    with pytest.raises(ValueError, match=r"b.csv:3: a label's column must contain 0, 1, .*'2' in column 'threat'"):
        read_table(path, label_columns=("toxic", "threat"))
    with pytest.raises(ValueError, match=r"missing column 'none' \(`label_columns`\)"):
        read_table(path, label_columns=("toxic", "none"))
