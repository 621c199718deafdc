"""What may be given for texts: whatever has an order and holds texts; all else is refused by what it is."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from bert_tf.utils.text_inputs import present_list, refuse_no_list, text_list
from tests.fake_pandas import DataFrame, Series

TEXTS = ["b", "ä", ""]
BYTES = [text.encode() for text in TEXTS]


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple(TEXTS),
        (text for text in TEXTS),
        {"x": "b", "y": "ä", "z": ""}.values(),
        Series(TEXTS, [2, 0, 1]),
        np.array(TEXTS),
        np.array(TEXTS, object),
        BYTES,
        np.array(BYTES, object),
        tf.constant(TEXTS),
        tf.data.Dataset.from_tensor_slices(TEXTS),
        pa.array(TEXTS),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_holds_texts_in_an_order(given):
    found = text_list(given)
    assert found == TEXTS and {type(each) for each in found} == {str}


def test_bytes_that_are_no_utf8_are_dropped():
    assert text_list([b"a\xffb", np.bytes_(b"c")]) == ["ab", "c"]


@pytest.mark.parametrize("given", [[("a", "b"), ["c", b"d"]], np.array([["a", "b"], ["c", "d"]])])
def test_pairs(given):
    assert text_list(given, pairs=True) == [("a", "b"), ("c", "d")]
    with pytest.raises(ValueError, match="`x` must be (strings|one-dimensional)"):
        text_list(given, "x")


_TABLE = {"text": TEXTS, "label": [0, 1, 0]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("one", "got one text, 'one'; put it in a list."),
        (b"one", "got one text, b'one'; put it in a list."),
        (np.array("one"), r"got a single value, array\('one'.*; put it in a list"),
        (_TABLE, r"got a dict of text, label; choose one of them, such as `\['text'\]`"),
        (DataFrame(_TABLE), r"got a DataFrame of text, label; choose one of them, such as `\['text'\]`"),
        (pa.table(_TABLE), r"got a Table of text, label; choose one of them"),
        ({}, "got an empty dict; pass a list"),
        ({"a", "b"}, "got a set, which has no order; use a list"),
        (5, "got int: 5; use a list"),
        (None, "got NoneType: None; use a list"),
    ],
)
def test_what_are_no_texts(given, told):
    for door in (text_list, present_list, refuse_no_list):
        if door is refuse_no_list and getattr(given, "shape", None) == ():
            continue
        with pytest.raises(ValueError, match=f"`x` must be several texts, such as a list. {told}"):
            door(given, "x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["a", None], "must not have missing texts; got None at position 1; remove them"),
        (Series(["a", float("nan"), None], [9, 8, 7]), r"got nan at positions 1, 2 \(2 of 3\)"),
        (np.array(["a", np.float32("nan")], object), r"got np.float32\(nan\) at position 1"),
        (pa.array([None, "a"] * 6), r"got None at positions 0, 2, 4, 6, 8, ... \(6 of 12\)"),
        (["a", 3], r"must be strings; got int at position 1: '3'\.$"),
        ([("a", "b")], "got tuple at position 0"),
        (np.array([1.5, 2]), "got float at position 0: '1.5'"),
        (np.array([["a"], ["b"]]), r"one-dimensional; got an array of shape \(2, 1\); choose one column"),
    ],
)
def test_what_is_no_text_is_named_with_its_position(given, told):
    with pytest.raises(ValueError, match=told):
        text_list(given)


def test_the_door_of_a_stream_reads_nothing():
    given = iter(TEXTS)
    refuse_no_list(given)
    assert list(given) == TEXTS
