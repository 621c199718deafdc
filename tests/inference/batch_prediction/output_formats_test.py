"""Answers that are no numbers, in each format of text: what is written every reader takes, and we read it back."""

import datetime
import json

import numpy as np
import pytest

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.answer_parts import PartWriter
from bert_tf.inference.batch_prediction.column_values import EntityLists, Slice
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.batch_prediction.output_formats import format_of
from bert_tf.utils.token_counts import TokenCounts

COLUMNS = {
    "id": ["a", "b", "c"],
    "score": np.array([0.5, np.nan, -np.inf], np.float32),
    "vector": np.array([[1, np.nan], [np.inf, 2], [3, 4]], np.float32),
    "parts": Ragged(np.array([1, np.nan, 2], np.float32), np.array([0, 1, 3, 3])),
}


def _written(tmp_path, name):
    form = format_of(name)
    form.write(str(tmp_path / f"part_{name}"), COLUMNS)
    form.join(str(tmp_path / name), [Slice(str(tmp_path / f"part_{name}"), 0, 3)])
    return (tmp_path / name).read_text(encoding="utf-8"), form.numbers(str(tmp_path / name), "score")


def test_a_part_that_has_them_is_warned_of(tmp_path, caplog):
    writer = PartWriter(lambda: lambda rows: COLUMNS, format_of("a.jsonl"), str(tmp_path)).ready()
    with caplog.at_level("WARNING", logger="absl"):
        assert writer.write(3, TableRows(["a", "b", "c"], [], {})) == (3, TokenCounts())
    messages = [record.getMessage() for record in caplog.records]
    assert [text.split(" are NaN")[0] for text in messages] == [
        "Part 3: 2 of 3 numbers of 'score'", "Part 3: 2 of 6 numbers of 'vector'", "Part 3: 1 of 3 numbers of 'parts'"
    ]  # fmt: skip


def test_entities_and_lists_that_have_them_are_warned_of(tmp_path, caplog):
    scores = [[{"text": "Rome", "score": score} for score in row] for row in ([np.nan, 0.5], [])]
    columns = {"id": ["a", "b"], "entities": EntityLists(scores), "attention": [[[1.0], [np.inf]], []], "n": [[1], []]}
    writer = PartWriter(lambda: lambda rows: columns, format_of("a.jsonl"), str(tmp_path)).ready()
    with caplog.at_level("WARNING", logger="absl"):
        writer.write(0, TableRows(["a", "b"], [], {}))
    assert [record.getMessage().split(" are NaN")[0] for record in caplog.records] == [
        "Part 0: 1 of 2 numbers of 'entities'", "Part 0: 1 of 2 numbers of 'attention'"
    ]  # fmt: skip


def test_in_json_null_stands_for_them(tmp_path):
    text, numbers = _written(tmp_path, "answers.jsonl")
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert rows == [
        {"id": "a", "score": 0.5, "vector": [1, None], "parts": [1]},
        {"id": "b", "score": None, "vector": [None, 2], "parts": [None, 2]},
        {"id": "c", "score": None, "vector": [3, 4], "parts": []},
    ]
    np.testing.assert_array_equal(numbers, [0.5, np.nan, np.nan])


def test_copied_values_that_json_does_not_have_are_text(tmp_path):
    days = [datetime.date(2024, 1, 2), None]
    for name, lines in (
        ("a.csv", ["day,past", '2024-01-02,"[""2024-01-02"", null]"', ",[]"]),
        ("a.jsonl", ['{"day": "2024-01-02", "past": ["2024-01-02", null]}', '{"day": null, "past": []}']),
    ):
        format_of(name).write(str(tmp_path / name), {"day": days, "past": [days, []]})
        assert (tmp_path / name).read_text(encoding="utf-8").splitlines() == lines


def test_in_csv_an_empty_cell_does(tmp_path):
    text, numbers = _written(tmp_path, "answers.csv")
    assert text.splitlines() == ["id,score,vector,parts", 'a,0.5,"[1.0, null]",[1.0]',
                                 'b,,"[null, 2.0]","[null, 2.0]"', 'c,,"[3.0, 4.0]",[]']  # fmt: skip
    np.testing.assert_array_equal(numbers, [0.5, np.nan, np.nan])
