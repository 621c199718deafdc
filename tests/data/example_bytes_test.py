"""tf.train.Example messages written with numpy: the bytes that protobuf itself would write."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import example_bytes
from bert_tf.data.example_bytes import serialize


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
    n = example_bytes._ROWS + 76  # more than are laid out at a time
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
