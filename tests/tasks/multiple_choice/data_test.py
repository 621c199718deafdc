"""Files of multiple-choice questions are read, and wrong ones are refused with one clear message."""

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.tasks.multiple_choice.data import read_choice_file
from tests.tasks.multiple_choice import support

QUESTIONS = [("a film", ["is good", "is\u2028bad 😀"], 0), ("", ["1", "2", "3", "4", "5"], 4)]
HEADER = "sent1,sent2,ending0,ending1,ending2,label"


def _write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_lists_of_any_length(tmp_path):
    path = support.write_jsonl(tmp_path / "a.jsonl", QUESTIONS, gold="ignored")
    read = read_choice_file(path, True)
    assert list(zip(read.contexts, read.choices, read.labels, strict=True)) == QUESTIONS
    assert read.ids == ["0", "1"] and len(read) == 2 and read.where(1) == f"{path}:2"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_choice_file(packed, True).choices == read.choices
    table = pa.table({"context": read.contexts, "choices": read.choices, "label": read.labels, "id": ["x", "y"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = read_choice_file(tmp_path / "a.parquet", True)
    assert (found.contexts, found.choices, found.labels) == (read.contexts, read.choices, read.labels)
    assert found.ids == ["x", "y"] and found.where(0).endswith("a.parquet: row 1")


def test_labels_are_not_looked_at_where_none_are_wanted(tmp_path):
    path = _write(tmp_path / "a.jsonl", '{"id": 7, "context": "a", "choices": ["b", "c"], "label": "?"}\n')
    read = read_choice_file(path, False)
    assert read.labels is None and read.ids == ["7"]


def test_half_an_emoji_in_a_list_is_dropped(tmp_path):
    path = _write(tmp_path / "a.jsonl", '{"context": "a\\ud83d", "choices": ["b\\ud83d", "c"]}\n')
    assert read_choice_file(path, False).choices == [["b", "c"]] and read_choice_file(path, False).contexts == ["a"]


def test_swag(tmp_path):
    questions = support.questions(5)
    given = [(context, [f"the {choice}" for choice in choices], label) for context, choices, label in questions]
    read = read_choice_file(support.write_swag(tmp_path / "train.csv", questions), True)
    assert list(zip(read.contexts, read.choices, read.labels, strict=True)) == given
    read = read_choice_file(support.write_swag(tmp_path / "test.csv", questions, with_labels=False), False)
    assert read.choices == [choices for _, choices, _ in given] and read.labels is None


def test_a_table_of_three_endings_and_a_sentence_that_only_they_make(tmp_path):
    read = read_choice_file(_write(tmp_path / "a.csv", f'{HEADER}\nx,,one,"two, too",three,2\n'), True)
    assert read.choices == [["one", "two, too", "three"]] and read.labels == [2]


def _line(**values):
    return json.dumps({"context": "a", "choices": ["b", "c"], "label": 0} | values) + "\n"


GOOD = _line()
WRONG = {  # case -> name of the file, what it holds, what the message says
    "empty": ("a.jsonl", "", r"a\.jsonl contains no questions\."),
    "an empty table": ("a.csv", "", r"a\.csv contains no questions\."),
    "a header alone": ("a.csv", HEADER + "\n", r"a\.csv contains no questions\."),
    "no choices": ("a.jsonl", '{"context": "a", "text": "b"}\n',
                   r"a\.jsonl:1: missing columns 'choices' \(a list of texts\) and 'label' \(.*\)\. Found the "
                   r"columns \['context', 'text'\]; a line is \{\"context\""),
    "no label": ("a.jsonl", '{"context": "a", "choices": ["b", "c"]}\n', r"a\.jsonl:1: missing column 'label'"),
    "one choice": ("a.jsonl", GOOD + _line(choices=["b"]),
                   r"a\.jsonl:2: 'choices' must be a list of at least two texts; got \['b'\]"),
    "no list": ("a.jsonl", _line(choices="b"), r"'choices' must be a list of at least two texts; got 'b'"),
    "without text": ("a.jsonl", GOOD + _line(choices=["b", "c", " \u00a0"]),
                     r"a\.jsonl:2: every choice must have text; got ' \\xa0' as choice 2 of \['b', 'c'"),
    "a number": ("a.jsonl", _line(choices=["b", 3]), r"every choice must have text; got 3 as choice 1"),
    "no context": ("a.jsonl", _line(context=None), r"a\.jsonl:1: a text must not be missing; got None in"),
    "out of range": ("a.jsonl", GOOD + _line(label=2), r"a\.jsonl:2: the label must be the index of the correct "
                     r"choice, from 0 to 1; got 2\.$"),
    "negative": ("a.jsonl", _line(label=-1), r"from 0 to 1; got -1"),
    "a name": ("a.jsonl", _line(label="b"), r"from 0 to 1; got 'b'"),
    "true": ("a.jsonl", _line(label=True), r"from 0 to 1; got True"),
    "ids alike": ("a.jsonl", 2 * _line(id="x"), r"a\.jsonl:2: the ids of a file must be unique; got 'x', which"),
    "an id of two lines": ("a.jsonl", _line(id="x\ny"), r"a label or id must be .* got 'id': 'x\\ny'"),
    "an id too few": ("a.jsonl", _line(id="x") + GOOD, r"a\.jsonl:2: missing column 'id' \(the name of each"),
    "no JSON": ("a.jsonl", "b\n", r"a\.jsonl:1: every line must be one JSON object"),
    "another table": ("a.csv", "text,label\na,0\n", r"a\.csv:1: missing columns 'sent1' \(the context\), .*"
                      r"and 'ending1' \(choice 1\)\. Found the columns \['text', '.*; SWAG's columns are sent1, "),
    "an ending too few": ("a.csv", f"{HEADER}\nx,y,0,1,2,0\nx,y,0,1,,0\n",
                          r"a\.csv:3: every choice must have text, and all questions of a table must have 3 choices; "
                          r"got '' in column 'ending2'; fill it in, or write the questions as \.jsonl"),
    "a column too few": ("a.csv", f"{HEADER}\nx,y,0,1,0\n", r"a\.csv:2: a row must have at least 6 columns.*SWAG's"),
    "a column too many": ("a.csv", f"{HEADER}\nx,y,0,1,2,3,0\n", r"a\.csv:2: a row must have the 6 columns of line 1"),
    "a label too high": ("a.csv", f"{HEADER}\nx,y,0,1,2,3\n", r"a\.csv:2: the label must be .* from 0 to 2; got"),
    "an open quote": ("a.csv", f'{HEADER}\n"x,y,0,1,2,3\n', r"a\.csv:2: the row that begins here is not valid CSV"),
    "an unknown format": ("a.txt", "x", r"a\.txt must end in \.tsv, \.csv, \.jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_gets_one_clear_message(tmp_path, case):
    name, content, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        read_choice_file(_write(tmp_path / name, content), True)


def test_no_file(tmp_path):
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        with pytest.raises(ValueError, match="File not found: "):
            read_choice_file(tmp_path / name, True)


def test_rows_without_a_text_are_named_together(tmp_path):
    rows = [("x", ["a", "b"]), (None, ["a", "b"]), ("y", None), ("z", ["a", None])]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(dict(zip(("context", "choices"), row, strict=True))) for row in rows))
    message = r"a\.jsonl:2: a text must not be missing; got None in column .context., and 2 more .*: 3, 4;"
    with pytest.raises(ValueError, match=message):
        read_choice_file(path, with_labels=False)
