"""Record files: what is written is read back, and files that do not match are refused."""

import os

import numpy as np
import pytest

from bert_tf.data import example_bytes, features, ragged, record_features, tfrecords
from tests.fake_batches import fake_batch
from tests.full_disk import full_disk
from tests.record_files import read_records

PRETRAINING = (
    "input_ids", "input_mask", "segment_ids",
    "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels",
)  # fmt: skip


def rows(n=10, seq_length=16, seed=0, names=PRETRAINING):
    return fake_batch(names, n, seq_length, vocab_size=30_000, seed=seed)


def written(path, batch, compression=None):
    batch = {name: v[:, None] if v.ndim == 1 else v for name, v in batch.items()}
    tfrecords.write_records(path, example_bytes.serialize(batch), compression)
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
    compression = record_features.compression_of(name)
    paths = [written(tmp_path / f"part-{seed}", part, compression) for seed, part in enumerate(parts)]
    (tmp_path / name).write_bytes(b"".join(path.read_bytes() for path in paths))
    expected = {name: np.concatenate([part[name] for part in parts]) for name in PRETRAINING}
    assert_same(all_rows(read_records([tmp_path / name], batch_size=8)), expected)


def test_the_names_of_model_garden_are_read_as_ours(tmp_path):
    batch = rows()
    theirs = {{"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}.get(n, n): v for n, v in batch.items()}
    path = written(tmp_path / "v2", theirs)
    found = record_features.describe_records(path)
    assert found["input_ids"] == ("int64", 16) and "input_word_ids" not in found
    assert_same(all_rows(read_records([path], batch_size=4)), batch)
    one = all_rows(read_records([path], names=("segment_ids",), batch_size=4))
    assert_same(one, {"segment_ids": batch["segment_ids"]})


def test_features_that_are_not_ours_are_left_out(tmp_path):
    path = written(tmp_path / "a", {**rows(), "unique_ids": np.arange(10)})
    assert set(read_records([path]).element_spec) == set(PRETRAINING)


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
        (("input_ids",), {"input_ids": 128}, r"contain input_ids as 128 int64; got 16 int64; .* `max_seq_length=128`"),
        (("input_ids",), {"masked_lm_ids": 20}, r"as 20 int64. .* 3 int64; .* `max_predictions_per_seq=20`"),
        (("input_ids",), {"sentence_ids": None}, r"lacks sentence_ids. Its records contain input_ids, "),
        (("sentence_ids",), None, r"lacks sentence_ids. Its records contain"),
        (("label_ids",), None, r"must contain label_ids as 1 int64; got 2 int64; create the records again, or"),
    ):
        with pytest.raises(ValueError, match=message):
            read_records([path], names=names, expect=expect)


def test_refuses_features_of_another_type_and_unknown_ones(tmp_path):
    path = written(tmp_path / "a", {"input_ids": np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match="must contain input_ids as int64; got 3 float32"):
        read_records([path])
    path = written(tmp_path / "b", {"unique_ids": np.ones((2, 1), np.int32)})
    with pytest.raises(ValueError, match="lacks input_ids. Its records contain unique_ids; create them again"):
        read_records([path])


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("left_out", [1, 8000])  # bytes: in the last buffer, and so many that a write fails
def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path, name, left_out):
    noise = np.random.default_rng(0).integers(0, 256, 9000).astype(np.uint8)
    many = ragged.Ragged.of_lengths(noise, [90] * 100)
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
