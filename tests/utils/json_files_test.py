"""Promises of bert_tf.utils.json_files: what is read from anywhere is within limits."""

import ast
import io
import json
import pathlib
import sys

import numpy as np
import pytest

from bert_tf.utils import json_files


@pytest.mark.parametrize(
    "text, words",
    [
        (b"[1]", "a list in place of an object; copy it again"),
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode byte 0xff"),
        (b'{"a": ' + b"[" * 51 + b"]" * 51 + b"}", "nested more than 50 levels deep"),
        (b'{"a": ' + b"[" * 100_000, "maximum recursion depth"),
        (b'{"a": "' + b"x" * 8 * 2**20 + b'"}', "8388617 bytes, which is too long"),
    ],
    ids=["list", "cut", "bytes", "nested", "deep", "long"],
)
def test_an_object_from_anywhere(tmp_path, text, words):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"a.json must be a list of parts; got .*{words}"):
        json_files.read_object(path, "a list of parts", "copy it again")
    path.write_bytes(b'\xef\xbb\xbf{"a": ' + b"[" * 40 + b"]" * 40 + b"}")
    assert list(json_files.read_object(path, "a list of parts", "copy it again")) == ["a"]


def test_no_object_where_it_should_be(tmp_path):
    for path, words in ((tmp_path, "a directory"), (tmp_path / "none", "no file")):
        with pytest.raises(ValueError, match=f"must be a list of parts; got {words}; copy it again."):
            json_files.read_object(path, "a list of parts", "copy it again")


def test_what_is_written_is_json_and_null_stands_for_what_is_no_number():
    value = {"a": float("nan"), "b": [1.5, float("inf"), (float("-inf"), "NaN")], "c": {"d": np.float64("nan"), "e": 2}}
    text = json_files.json_text(value, indent=1)
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [1.5, None, [None, "NaN"]],
                                                            "c": {"d": None, "e": 2}}  # fmt: skip
    assert json_files.json_text({"ö": 0.1}, ensure_ascii=False) == '{"ö": 0.1}'
    with pytest.raises(TypeError):
        json_files.json_text({"a": object()})


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("utf-8", '["é中"]'), ("UTF8", '["é中"]'), (None, '["é中"]'),
     ("latin-1", r'["\u00e9\u4e2d"]'), ("ascii", r'["\u00e9\u4e2d"]')],
)  # fmt: skip
def test_what_is_printed_has_either_characters_or_escapes(monkeypatch, encoding, text):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding) if encoding else io.StringIO())
    assert json_files.printable_json(["é中"]) == text


# Rooms that write answers, scores and other numbers that a model or a run gave.
_WRITE_NUMBERS = ("cli", "evaluation", "experiments", "tasks", "inference/batch_prediction", "interpret/probing")
# What they write otherwise are names, paths and settings, or the words of a program to its parent.
_NO_NUMBERS = {
    "tasks/registry.py", "inference/batch_prediction/input_table.py", "cli/doctor.py", "cli/output_encoding.py",
    "experiments/demo/archives.py", "experiments/demo/run.py",
    "inference/batch_prediction/trained_model.py",
}  # fmt: skip


def test_no_writer_of_numbers_goes_past_it():
    package = pathlib.Path(json_files.__file__).parents[1]
    past = set()
    for room in _WRITE_NUMBERS:
        for path in (package / room).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            called = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
            if {"json.dump", "json.dumps"} & set(called):
                past.add(path.relative_to(package).as_posix())
    assert past == _NO_NUMBERS
