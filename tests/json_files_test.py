"""Promises of bert_tf.json_files: what is read from anywhere is within limits."""

import pytest

from bert_tf import json_files


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
    with pytest.raises(ValueError, match=f"a.json must be a list of parts. Received: .*{words}"):
        json_files.read_object(path, "a list of parts", "copy it again")
    path.write_bytes(b'\xef\xbb\xbf{"a": ' + b"[" * 40 + b"]" * 40 + b"}")
    assert list(json_files.read_object(path, "a list of parts", "copy it again")) == ["a"]


def test_no_object_where_it_should_be(tmp_path):
    for path, words in ((tmp_path, "a directory"), (tmp_path / "none", "no file")):
        with pytest.raises(ValueError, match=f"must be a list of parts. Received: {words}; copy it again."):
            json_files.read_object(path, "a list of parts", "copy it again")
