"""Record files: what is written is read back, and what is no record file is refused."""

import contextlib
import gzip
import os
import resource

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import features, records
from tests.fake_batches import fake_batch
from tests.record_files import read_records

PRETRAINING = (
    "input_ids", "input_mask", "segment_ids",
    "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels",
)  # fmt: skip


def rows(n=10, seq_length=16, seed=0, names=PRETRAINING):
    return fake_batch(names, n, seq_length, vocab_size=30_000, seed=seed)


def written(path, batch, compression=None):
    batch = {name: v[:, None] if v.ndim == 1 else v for name, v in batch.items()}
    records.write(path, records.serialize(batch), compression)
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
def test_what_is_written_is_read_back(tmp_path, name):
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
    compression = records.compression_of(name)
    paths = [written(tmp_path / f"part-{seed}", part, compression) for seed, part in enumerate(parts)]
    (tmp_path / name).write_bytes(b"".join(path.read_bytes() for path in paths))
    expected = {name: np.concatenate([part[name] for part in parts]) for name in PRETRAINING}
    assert_same(all_rows(read_records([tmp_path / name], batch_size=8)), expected)


def test_the_names_of_model_garden_are_read_as_ours(tmp_path):
    batch = rows()
    theirs = {{"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}.get(n, n): v for n, v in batch.items()}
    path = written(tmp_path / "v2", theirs)
    assert records.describe(path)["input_ids"] == ("int64", 16) and "input_word_ids" not in records.describe(path)
    assert_same(all_rows(read_records([path], batch_size=4)), batch)
    one = all_rows(read_records([path], names=("segment_ids",), batch_size=4))
    assert_same(one, {"segment_ids": batch["segment_ids"]})


def test_a_description_names_types_and_lengths(tmp_path):
    path = written(tmp_path / "a", rows(names=("input_ids", "masked_lm_weights", "next_sentence_labels")))
    expected = {"input_ids": ("int64", 16), "masked_lm_weights": ("float32", 3), "next_sentence_labels": ("int64", 1)}
    assert records.describe(path) == expected
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": text, "unset": tf.train.Feature()}))
    assert records.describe(_file(tmp_path / "b", [example.SerializeToString()])) == {"text": ("bytes", 2)}


def test_features_that_are_not_ours_are_left_out(tmp_path):
    path = written(tmp_path / "a", {**rows(), "unique_ids": np.arange(10)})
    assert set(read_records([path]).element_spec) == set(PRETRAINING)


def _file(path, messages):
    flat = np.frombuffer(b"".join(messages), np.uint8)
    records.write(path, features.Ragged.of_lengths(flat, [len(m) for m in messages]))
    return path


PLAIN = "plain"  # stands for a good file below, and PACKED for a compressed one
PACKED = "packed"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere", None, "must be a file that can be read. Received: No such file"),
        ("a", b"", "Received a file without a record; leave it out"),
        ("a.gz", b"", "Received a file without a record"),
        pytest.param("a.gz", gzip.compress(b""), "Received a file without a record", id="nothing, packed"),
        ("a", b"Call me Ishmael. Some years ago", "Received something else; make records with"),
        ("a", b"short", "Received something else"),
        pytest.param("a.gz", gzip.compress(b"Call me Ishmael."), "Received something else", id="text, packed"),
        ("a", (PLAIN, 100), "Received one that is cut off or damaged"),
        ("a.gz", (PACKED, 100), "Received one that is cut off or damaged"),
        ("a.gz", (PACKED, 5), "Received one that is cut off or damaged"),
        ("a.gz", (PLAIN, None), "Received a file that is not compressed; take .gz off its name"),
        ("a", (PACKED, None), "Received a gzip file; add .gz to its name"),
    ],
)
def test_what_is_no_record_file_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, tuple):
        kind, length = content
        source = written(tmp_path / "good", rows(), "GZIP" if kind == PACKED else "")
        content = source.read_bytes()[:length]
    if content is not None:
        path.write_bytes(content)
    for use in (lambda: records.describe(path), lambda: read_records([path])):
        with pytest.raises(ValueError, match=message) as error:
            use()
        assert str(error.value).startswith(f"{path} must be ")


@pytest.mark.parametrize("message", [b"no protocol buffer", b"", tf.train.Example().SerializeToString()])
def test_records_of_another_kind_are_refused(tmp_path, message):
    with pytest.raises(ValueError, match="Received records of another kind"):
        records.describe(_file(tmp_path / "a", [message]))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be a file that can be read. Received: Is a directory"):
        records.describe(tmp_path)


def test_files_made_for_different_lengths_are_refused(tmp_path):
    paths = [written(tmp_path / "a", rows()), written(tmp_path / "b", rows()), written(tmp_path / "c", rows(2, 32))]
    with pytest.raises(ValueError) as error:
        read_records(paths)
    assert str(error.value) == (
        f"{paths[2]} must hold what {paths[0]} holds. Received input_ids as 32 int64 in the one and as 16 int64 in the "
        "other, records made for another length or with other options; read them apart, or make them anew."
    )
    lacks = written(tmp_path / "d", rows(names=PRETRAINING[:-1]))
    with pytest.raises(ValueError, match="next_sentence_labels as nothing in the one and as 1 int64 in the other"):
        read_records([paths[0], lacks])


def test_what_the_caller_expects_must_be_there(tmp_path):
    path = written(tmp_path / "a", {**rows(), "label_ids": np.zeros((10, 2), np.int32)})
    good = {"input_ids": 16, "masked_lm_ids": 3, "next_sentence_labels": None}
    assert set(read_records([path], names=("input_ids",), expect=good).element_spec) == {"input_ids"}
    for names, expect, message in (
        (("input_ids",), {"input_ids": 128}, r"hold input_ids as 128 int64. .* 16 int64; .* `max_seq_length=128`"),
        (("input_ids",), {"masked_lm_ids": 20}, r"as 20 int64. .* 3 int64; .* `max_predictions_per_seq=20`"),
        (("input_ids",), {"sentence_ids": None}, r"must hold sentence_ids. Received records with input_ids, "),
        (("sentence_ids",), None, r"must hold sentence_ids. Received records with"),
        (("label_ids",), None, r"must hold label_ids as 1 int64. Received 2 int64; make the records anew, or"),
    ):
        with pytest.raises(ValueError, match=message):
            read_records([path], names=names, expect=expect)


def test_features_of_another_type_and_none_of_ours_are_refused(tmp_path):
    path = written(tmp_path / "a", {"input_ids": np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match="must hold input_ids as int64. Received 3 float32"):
        read_records([path])
    path = written(tmp_path / "b", {"unique_ids": np.ones((2, 1), np.int32)})
    with pytest.raises(ValueError, match="must hold input_ids. Received records with unique_ids; make them anew"):
        read_records([path])


@contextlib.contextmanager
def _full_disk(size):
    """No file can grow beyond so many bytes. Python ignores the signal that would end the process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("left_out", [1, 8000])  # bytes: in the last buffer, and so many that a write fails
def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path, name, left_out):
    noise = np.random.default_rng(0).integers(0, 256, 9000).astype(np.uint8)
    many = features.Ragged.of_lengths(noise, [90] * 100)
    path = tmp_path / name
    records.write(path, many)
    size = path.stat().st_size
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="File too large") as error, _full_disk(size - left_out):
        records.write(path, many)
    assert str(path) in str(error.value)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == [name]
    records.write(path, many)
    assert path.stat().st_size == size


def test_a_place_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        written(tmp_path / "nowhere" / "a", rows())


def test_compression_by_name():
    found = [records.compression_of(path) for path in ("a.gz", "b/a.tfrecord.GZ", "a.tfrecord", "gz", "a.gz.tmp")]
    assert found == ["GZIP", "GZIP", "", "", ""]
