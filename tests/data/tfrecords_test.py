"""Record files: what is written is read back, and what is no record file is refused."""

import gzip
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import features, tfrecords
from bert_tf.data.tfrecords import serialize
from tests.fake_batches import fake_batch
from tests.full_disk import full_disk
from tests.record_files import read_records

# === Example bytes ===
# tf.train.Example messages written with numpy: the bytes that protobuf itself would write.


def by_hand(features):
    """The messages that the protobuf library makes, row by row."""

    def feature(row):
        if row.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=row))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=row))

    rows = range(len(next(iter(features.values()))))
    examples = [{name: feature(values[row]) for name, values in features.items()} for row in rows]
    messages = [tf.train.Example(features=tf.train.Features(feature=example)) for example in examples]
    return [message.SerializeToString(deterministic=True) for message in messages]


def found(features):
    return [row.tobytes() for row in serialize(features).rows()]


def test_one_example_is_the_bytes_of_the_specification():
    assert found({"ids": np.array([[1, 300]])}) == [b"\x0a\x10\x0a\x0e\x0a\x03ids\x12\x07\x1a\x05\x0a\x03\x01\xac\x02"]


def test_the_example_of_the_docstring():
    start = bytes.fromhex("0a1a0a180a09") + b"input_ids" + bytes.fromhex("120b1a090a0765a83b66")
    row = found({"input_ids": np.array([[101, 7592, 102, 0, 0, 0]])})
    assert row == [start + b"\0\0\0"] == by_hand({"input_ids": np.array([[101, 7592, 102, 0, 0, 0]])})


@pytest.mark.parametrize("edge", [0, 127, 128, 2**14, 2**21, 2**28, 2**31 - 1, 2**32, 2**35, 2**49, 2**63 - 1])
def test_numbers_of_every_width_in_bytes(edge):
    near = np.array([[max(edge - 1, 0)], [edge], [min(edge + 1, 2**63 - 1)]])
    features = {"near": near, "edge": np.array([[0, edge]] * 3), "b": np.array([[edge, 1, edge]] * 3)}
    assert found(features) == by_hand(features)


def test_negative_numbers_are_those_of_protobuf():
    features = {"a": np.array([[-1, 5], [0, -(2**63)]]), "b": np.array([[-7], [7]], np.int32)}
    assert found(features) == by_hand(features)


def test_random_features_are_parsed_by_protobuf():
    rng = np.random.default_rng(0)
    n = tfrecords._ROWS + 76  # more than are laid out at a time
    features = {
        "weights": rng.normal(size=(n, 3)).astype(np.float32),
        "ids": (2 ** (rng.random((n, 40)) * 62)).astype(np.int64),  # of all lengths, so that lengths of lengths differ
        "positions": rng.integers(0, 512, (n, 70)).astype(np.int32),
        "label": rng.integers(0, 2, (n, 1)).astype(np.uint8),
        "doubles": rng.normal(size=(n, 1)),
        "none": np.zeros((n, 0), np.int64),
    }
    parsed = [tf.train.Example.FromString(row).features.feature for row in found(features)]
    assert len(parsed) == n
    for name, values in features.items():
        kind = "float_list" if values.dtype.kind == "f" else "int64_list"
        rows = np.array([getattr(row[name], kind).value for row in parsed]).reshape(values.shape)
        assert {row[name].WhichOneof("kind") for row in parsed} == {kind}
        assert (rows == values.astype(np.float32 if kind == "float_list" else np.int64)).all(), name
    del features["none"]  # protobuf writes an empty list in no bytes at all
    assert found(features) == by_hand(features)


def test_special_floats_are_kept():
    values = np.array([[0.0, -0.0, 1e-45, np.inf, -np.inf, 3.4e38]], np.float32)
    assert found({"x": values}) == by_hand({"x": values})


def test_views_and_big_endian_arrays_are_serialized_by_value():
    numbers = np.arange(24).reshape(4, 6) * 99
    for view in (numbers[::-1, ::2], numbers.T, numbers.astype(">i4"), numbers.astype(">f8")):
        assert found({"x": view}) == by_hand({"x": view})


def test_no_rows():
    rows = serialize({"ids": np.zeros((0, 4), np.int32)})
    assert len(rows.lengths) == 0 and rows.flat.dtype == np.uint8


def test_the_order_of_the_features_does_not_matter():
    a, b = np.ones((2, 3), np.int32), np.zeros((2, 1), np.float32)
    assert found({"a": a, "b": b}) == found({"b": b, "a": a})


def test_other_things_than_matrices_of_numbers_are_refused():
    for wrong in (np.zeros(3, np.int32), np.array([["a"]]), np.array([[True]])):
        with pytest.raises(AssertionError):
            serialize({"x": wrong})
    with pytest.raises(AssertionError):
        serialize({"x": np.zeros((2, 1), np.int32), "y": np.zeros((3, 1), np.int32)})


# === Records ===


PRETRAINING = (
    "input_ids", "input_mask", "segment_ids",
    "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels",
)  # fmt: skip


def rows(n=10, seq_length=16, seed=0, names=PRETRAINING):
    return fake_batch(names, n, seq_length, vocab_size=30_000, seed=seed)


def written(path, batch, compression=None):
    batch = {name: v[:, None] if v.ndim == 1 else v for name, v in batch.items()}
    tfrecords.write_records(path, tfrecords.serialize(batch), compression)
    return path


def all_rows(dataset):
    """{name: rows of all batches together}."""
    batches = list(dataset.as_numpy_iterator())
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype == features.FEATURES[name].dtype
        np.testing.assert_array_equal(found[name], values, name)


@pytest.mark.parametrize("name", ["train.tfrecord", "train.tfrecord.gz"])
def test_written_records_are_read_back(tmp_path, name):
    names = (*PRETRAINING, "sentence_ids", "next_sentence_positions", "next_sentence_weights", "label_ids")
    batch = rows(names=names)
    path = written(tmp_path / name, batch)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    dataset = read_records([path], batch_size=4)
    assert dataset.element_spec["input_ids"].shape.as_list() == [None, 16]
    assert dataset.element_spec["label_ids"].shape.as_list() == [None]
    assert_same(all_rows(dataset), batch)
    assert os.listdir(tmp_path) == [name]


def test_the_last_batch_is_smaller(tmp_path):
    path = written(tmp_path / "a", rows(n=10))
    assert [len(b["input_ids"]) for b in read_records([path], batch_size=4)] == [4, 4, 2]


def test_files_come_in_their_order_compressed_or_not(tmp_path):
    parts = [rows(n=3, seed=seed) for seed in range(3)]
    paths = [written(tmp_path / name, part) for name, part in zip(("c", "a.gz", "b"), parts, strict=True)]
    expected = {name: np.concatenate([part[name] for part in parts]) for name in PRETRAINING}
    for _ in range(2):
        assert_same(all_rows(read_records(paths, batch_size=2)), expected)


@pytest.mark.parametrize("name", ["whole", "whole.gz"])
def test_parts_end_to_end_are_one_file(tmp_path, name):
    parts = [rows(n=3, seed=seed) for seed in range(2)]
    compression = tfrecords.compression_of(name)
    paths = [written(tmp_path / f"part-{seed}", part, compression) for seed, part in enumerate(parts)]
    (tmp_path / name).write_bytes(b"".join(path.read_bytes() for path in paths))
    expected = {name: np.concatenate([part[name] for part in parts]) for name in PRETRAINING}
    assert_same(all_rows(read_records([tmp_path / name], batch_size=8)), expected)


def test_the_names_of_model_garden_are_read_as_ours(tmp_path):
    batch = rows()
    theirs = {{"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}.get(n, n): v for n, v in batch.items()}
    path = written(tmp_path / "v2", theirs)
    found = tfrecords.describe_records(path)
    assert found["input_ids"] == ("int64", 16) and "input_word_ids" not in found
    assert_same(all_rows(read_records([path], batch_size=4)), batch)
    one = all_rows(read_records([path], names=("segment_ids",), batch_size=4))
    assert_same(one, {"segment_ids": batch["segment_ids"]})


def test_a_description_names_types_and_lengths(tmp_path):
    path = written(tmp_path / "a", rows(names=("input_ids", "masked_lm_weights", "next_sentence_labels")))
    expected = {"input_ids": ("int64", 16), "masked_lm_weights": ("float32", 3), "next_sentence_labels": ("int64", 1)}
    assert tfrecords.describe_records(path) == expected
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": text, "unset": tf.train.Feature()}))
    assert tfrecords.describe_records(_file(tmp_path / "b", [example.SerializeToString()])) == {"text": ("bytes", 2)}


def test_features_that_are_not_ours_are_left_out(tmp_path):
    path = written(tmp_path / "a", {**rows(), "unique_ids": np.arange(10)})
    assert set(read_records([path]).element_spec) == set(PRETRAINING)


def _file(path, messages):
    flat = np.frombuffer(b"".join(messages), np.uint8)
    tfrecords.write_records(path, features.Ragged.of_lengths(flat, [len(m) for m in messages]))
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
    for use in (lambda: tfrecords.describe_records(path), lambda: read_records([path])):
        with pytest.raises(ValueError, match=message) as error:
            use()
        assert str(error.value).startswith(f"{path} ")


@pytest.mark.parametrize("message", [b"no protocol buffer", b"", tf.train.Example().SerializeToString()])
def test_refuses_records_that_hold_no_example(tmp_path, message):
    with pytest.raises(ValueError, match="It is a file of records of another type"):
        tfrecords.describe_records(_file(tmp_path / "a", [message]))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        tfrecords.describe_records(tmp_path)


def test_files_made_for_different_lengths_are_refused(tmp_path):
    paths = [written(tmp_path / "a", rows()), written(tmp_path / "b", rows()), written(tmp_path / "c", rows(2, 32))]
    with pytest.raises(ValueError) as error:
        read_records(paths)
    assert str(error.value) == (
        f"{paths[2]} does not match {paths[0]}: input_ids is 32 int64 in the former and 16 int64 in the latter, so "
        "they were made with another length or other options. Read them separately, or create them again."
    )
    lacks = written(tmp_path / "d", rows(names=PRETRAINING[:-1]))
    with pytest.raises(ValueError, match="next_sentence_labels is nothing in the former and 1 int64 in the latter"):
        read_records([paths[0], lacks])


def test_refuses_records_without_the_expected_features(tmp_path):
    path = written(tmp_path / "a", {**rows(), "label_ids": np.zeros((10, 2), np.int32)})
    good = {"input_ids": 16, "masked_lm_ids": 3, "next_sentence_labels": None}
    assert set(read_records([path], names=("input_ids",), expect=good).element_spec) == {"input_ids"}
    for names, expect, message in (
        (("input_ids",), {"input_ids": 128}, r"hold input_ids as 128 int64. .* 16 int64; .* `max_seq_length=128`"),
        (("input_ids",), {"masked_lm_ids": 20}, r"as 20 int64. .* 3 int64; .* `max_predictions_per_seq=20`"),
        (("input_ids",), {"sentence_ids": None}, r"lacks sentence_ids. Its records hold input_ids, "),
        (("sentence_ids",), None, r"lacks sentence_ids. Its records hold"),
        (("label_ids",), None, r"must hold label_ids as 1 int64. Received 2 int64; create the records again, or"),
    ):
        with pytest.raises(ValueError, match=message):
            read_records([path], names=names, expect=expect)


def test_refuses_features_of_another_type_and_unknown_ones(tmp_path):
    path = written(tmp_path / "a", {"input_ids": np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match="must hold input_ids as int64. Received 3 float32"):
        read_records([path])
    path = written(tmp_path / "b", {"unique_ids": np.ones((2, 1), np.int32)})
    with pytest.raises(ValueError, match="lacks input_ids. Its records hold unique_ids; create them again"):
        read_records([path])


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("left_out", [1, 8000])  # bytes: in the last buffer, and so many that a write fails
def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path, name, left_out):
    noise = np.random.default_rng(0).integers(0, 256, 9000).astype(np.uint8)
    many = features.Ragged.of_lengths(noise, [90] * 100)
    path = tmp_path / name
    tfrecords.write_records(path, many)
    size = path.stat().st_size
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="File too large") as error, full_disk(size - left_out):
        tfrecords.write_records(path, many)
    assert str(path) in str(error.value)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == [name]
    tfrecords.write_records(path, many)
    assert path.stat().st_size == size


def test_writing_into_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        written(tmp_path / "nowhere" / "a", rows())


def test_compression_by_name():
    found = [tfrecords.compression_of(path) for path in ("a.gz", "b/a.tfrecord.GZ", "a.tfrecord", "gz", "a.gz.tmp")]
    assert found == ["GZIP", "GZIP", "", "", ""]
