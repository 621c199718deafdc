"""Descriptions of record files, and what is refused because it is no record file."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import ragged, tfrecords
from bert_tf.data.record_features import compression_of, describe_records
from tests.data.tfrecords_test import rows, written
from tests.record_files import read_records


def test_a_description_names_types_and_lengths(tmp_path):
    path = written(tmp_path / "a", rows(names=("input_ids", "masked_lm_weights", "next_sentence_labels")))
    expected = {"input_ids": ("int64", 16), "masked_lm_weights": ("float32", 3), "next_sentence_labels": ("int64", 1)}
    assert describe_records(path) == expected
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": text, "unset": tf.train.Feature()}))
    assert describe_records(_file(tmp_path / "b", [example.SerializeToString()])) == {"text": ("bytes", 2)}


def _file(path, messages):
    flat = np.frombuffer(b"".join(messages), np.uint8)
    tfrecords.write_records(path, ragged.Ragged.of_lengths(flat, [len(m) for m in messages]))
    return path


PLAIN = "plain"  # stands for a good file below, and PACKED for a compressed one
PACKED = "packed"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere", None, "cannot be read: No such file"),
        ("a", b"", "It is a file without records; omit it"),
        ("a.gz", b"", "It is a file without records"),
        pytest.param("a.gz", gzip.compress(b""), "It is a file without records", id="nothing, packed"),
        ("a", b"Call me Ishmael. Some years ago", "It is another format; create records with"),
        ("a", b"short", "It is another format"),
        pytest.param("a.gz", gzip.compress(b"Call me Ishmael."), "It is another format", id="text, packed"),
        ("a", (PLAIN, 100), "It is a file that is truncated or damaged"),
        ("a.gz", (PACKED, 100), "It is a file that is truncated or damaged"),
        ("a.gz", (PACKED, 5), "It is a file that is truncated or damaged"),
        ("a.gz", (PLAIN, None), "It is a file that is not compressed; remove .gz from its name"),
        ("a", (PACKED, None), "It is a gzip file; append .gz to its name"),
    ],
)
def test_refuses_files_that_hold_no_records(tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, tuple):
        kind, length = content
        source = written(tmp_path / "good", rows(), "GZIP" if kind == PACKED else "")
        content = source.read_bytes()[:length]
    if content is not None:
        path.write_bytes(content)
    for use in (lambda: describe_records(path), lambda: read_records([path])):
        with pytest.raises(ValueError, match=message) as error:
            use()
        assert str(error.value).startswith(f"{path} ")


@pytest.mark.parametrize("message", [b"no protocol buffer", b"", tf.train.Example().SerializeToString()])
def test_refuses_records_that_hold_no_example(tmp_path, message):
    with pytest.raises(ValueError, match="It is a file of records of another type"):
        describe_records(_file(tmp_path / "a", [message]))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        describe_records(tmp_path)


def test_compression_by_name():
    found = [compression_of(path) for path in ("a.gz", "b/a.tfrecord.GZ", "a.tfrecord", "gz", "a.gz.tmp")]
    assert found == ["GZIP", "GZIP", "", "", ""]
