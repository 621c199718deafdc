"""Faults of record files: each is found, and the message names the file and the record."""

import gzip
import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import example_bytes, tfrecords
from bert_tf.pretraining.batches import Batches, Records
from bert_tf.pretraining.record_metadata import RecordMetadata

ROWS, S, M, V = 1500, 8, 2, 100
B = 50  # rows a batch
TOO_MANY = 150  # batches: several epochs


def _features(rows=ROWS, length=S):
    rng = np.random.default_rng(0)
    features = {"input_ids": rng.integers(0, V, (rows, length)), "input_mask": np.ones((rows, length), int)}
    features |= {"segment_ids": np.zeros((rows, length), int)}
    features |= {name: rng.integers(0, S, (rows, M)) for name in ("masked_lm_positions", "masked_lm_ids")}
    return features | {
        "masked_lm_weights": np.ones((rows, M), np.float32),
        "next_sentence_labels": np.zeros((rows, 1), int),
    }


def _write(path, features):
    tfrecords.write_records(path, example_bytes.serialize(features))
    return pathlib.Path(path)


@pytest.fixture
def path(tmp_path, request):
    """The second of two files, where the fault will be."""
    _write(tmp_path / "a.tfrecord", _features(5))
    return _write(tmp_path / getattr(request, "param", "b.tfrecord"), _features())


GZ = pytest.mark.parametrize("path", ["b.tfrecord.gz"], indirect=True)
BOTH = pytest.mark.parametrize("path", ["b.tfrecord", "b.tfrecord.gz"], indirect=True)


def _records(path):
    return Records.of([str(path.parent / "*")], S, M).for_model(V, 2)


def _exhaust(batches):
    return sum(1 for _ in itertools.islice(batches, TOO_MANY))


def _raw(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _put(path, data):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def _refused(path, match):
    held = _records(path)
    for batches in (held.batches(B, 0), held.in_order(B)):
        with pytest.raises(ValueError, match=match):
            _exhaust(batches)


@pytest.mark.slow
@BOTH
def test_whole_files_that_fit(path):
    assert _exhaust(_records(path).in_order(B)) == (ROWS + 5) // B
    assert _exhaust(_records(path).batches(B, 0)) == TOO_MANY


@pytest.mark.slow
@BOTH
def test_a_file_cut_in_the_middle(path):
    data = _raw(path)
    _put(path, data[: len(data) * 1300 // ROWS + 20])
    _refused(path, rf"{path} is not a complete record file: .*cannot be read from record 1301 on")


@pytest.mark.slow
def test_a_compressed_file_cut_in_the_middle(tmp_path):
    path = _write(tmp_path / "b.tfrecord.gz", _features())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    _refused(path, rf"{path} is not a complete .* cannot be read from record \d+ on, where it is truncated")


def test_a_flipped_bit(path):
    data = bytearray(_raw(path))
    data[len(data) * 2 // ROWS + 40] ^= 4
    _put(path, bytes(data))
    _refused(path, rf"{path} is not a complete record file: .*cannot be read from record 3 on")


@pytest.mark.slow
def test_rows_of_another_length_in_the_middle(path):
    _put(path, _raw(path) + _raw(_write(path.parent.parent / f"other{path.suffix}", _features(B, S + 1))))
    _refused(path, rf"Record {ROWS + 1} of {path} must have the same features as the first one.* or lengths")


@GZ
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param(
            "input_ids",
            V,
            f"from 0 to 99, because 100 is the size of the model's vocabulary; got {V}; .* another voc",
            marks=pytest.mark.slow,
        ),  # fmt: skip
        ("input_ids", -1, "from 0 to 99, .* got -1; the records were made with another vocabulary"),
        pytest.param(
            "masked_lm_ids",
            30_000,
            "from 0 to 99, .* got 30000; the records were made with another vocabulary",
            marks=pytest.mark.slow,
        ),  # fmt: skip
        pytest.param(
            "masked_lm_positions",
            S,
            "from 0 to 7, because 8 is the sequence length; got 8; create the",
            marks=pytest.mark.slow,
        ),  # fmt: skip
        pytest.param(
            "segment_ids",
            2,
            "from 0 to 1, because 2 is the model's type_vocab_size; got 2",
            marks=pytest.mark.slow,
        ),  # fmt: skip
        pytest.param(
            "next_sentence_labels",
            2,
            "from 0 to 1, because 2 is the number of labels; got 2",
            marks=pytest.mark.slow,
        ),  # fmt: skip
    ],
)
def test_a_value_beyond_the_model(path, name, value, message):
    features = _features()
    features[name][1100, -1] = value
    _write(path, features)
    _refused(path, f"Record 1101 of {path} must have {name} {message}")


def _metadata(vocabulary, masking="token"):
    return RecordMetadata(vocabulary * 64, "f" * 64, True, True, "nsp", masking)


@pytest.mark.slow
def test_a_file_that_was_put_together_of_two_that_were_made_otherwise(path):
    """As `cat` does it: of how it was made a file speaks in its first record alone."""
    one, two = (path.with_name(f"{name}{''.join(path.suffixes)}") for name in ("one", "two"))
    for part, metadata in ((one, _metadata("0")), (two, _metadata("1", "span"))):
        tfrecords.write_records(part, example_bytes.serialize(_features(30)), stamp=metadata.stamp())
    path.write_bytes(one.read_bytes() + two.read_bytes())
    two.unlink()
    received = "made with vocabulary 1{16}, masking span, but the first was made with vocabulary 0{16}, masking token"
    _refused(path, f"Record 31 of {path} must be made like the first one, .* It is one {received}")
    path.write_bytes(one.read_bytes() * 2)  # alike
    assert _exhaust(_records(path).in_order(4)) == (3 * 30 + 5) // 4


def test_a_model_without_segments_takes_any(path):
    features = _features()
    features["segment_ids"][1100, 3] = 5
    _write(path, features)
    assert _exhaust(Records.of([str(path)]).for_model(V, 0).in_order(B)) == ROWS // B


def test_without_a_model_all_ids_go(path):
    features = _features()
    features["input_ids"][1100, 3] = V
    _write(path, features)
    assert _exhaust(Records.of([str(path)]).in_order(B)) == ROWS // B


def test_a_file_that_went_away(path):
    held = _records(path)
    batches = held.batches(B, 0)
    path.unlink()
    with pytest.raises(ValueError, match=f"{path} cannot be read: No such file"):
        _exhaust(batches)


def test_a_fault_behind_the_point_of_resumption_or_mapped(path):
    features = _features()
    features["input_ids"][1400, 3] = V
    _write(path, features)
    batches = _records(path).batches(B, 0, start=30).map(lambda batch: batch["input_ids"] + 1)
    with pytest.raises(ValueError, match=f"Record 1401 of {path} must have input_ids"):
        _exhaust(batches)


def test_an_error_that_is_not_of_the_files_stays_what_it_was(path):
    def fail(batch):
        tf.debugging.Assert(tf.reduce_all(batch["input_ids"] < 0), ["of the map"])
        return batch

    with pytest.raises(tf.errors.InvalidArgumentError, match="of the map"):
        _exhaust(_records(path).in_order(B).map(fail))


def test_fewer_rows_than_a_batch_has(path):
    with pytest.raises(ValueError, match="do not contain a full batch. Use a smaller batch"):
        _exhaust(_records(path).in_order(10_000))


def test_records_of_another_kind(tmp_path):
    features = _features(3)
    ours = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    path = _write(tmp_path / "c.tfrecord", ours | {"label_ids": np.zeros((3, 1), int)})
    message = f"{path} does not contain pretraining records, but records with .*label_ids"
    with pytest.raises(ValueError, match=message):
        Records.of([str(path)])
    path = _write(tmp_path / "c.tfrecord", {"label_ids": np.zeros((3, 1), int)})
    with pytest.raises(ValueError, match="does not contain pretraining records, but records with label_ids"):
        Records.select([str(path)], S)


def test_an_empty_file_and_one_of_no_records(path):
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"{path} must be a TFRecord file .* It is a file without records"):
        _records(path)


def test_an_error_that_no_file_causes_is_not_searched_for_in_the_files():
    def fail(_):
        raise MemoryError("no room")  # as which TensorFlow's ResourceExhaustedError comes out of a function of Python

    def search():
        raise AssertionError("all files were read")

    dataset = tf.data.Dataset.range(1).map(lambda n: tf.py_function(fail, [n], tf.int64))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="no room"):
        list(Batches(dataset, search, ["a.tfrecord"]))
