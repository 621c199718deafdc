"""Promises of bert_tf.data.columns: what a cell of several names or of a number says, and which ones say nothing."""

from decimal import Decimal

import numpy as np
import pytest

from bert_tf.data import columns


@pytest.mark.parametrize(
    "value, names",
    [("a", ("a",)), ("b, a ,b", ("b", "a")), ("", ()), ("  ", ()), ([], ()), (["a, b", "c"], ("a, b", "c")),
     ([1, True], ("1", "true")), (3, ("3",)), (",", None), ("a\nb", None), (None, None), ([""], None), ([["a"]], None),
     (float("nan"), None), ([1.0, 1, "1", "1.0", 2.5], ("1", "1.0", "2.5")),
     ("['film', \"it's\"]", ("film", "it's")), ('["a, b"]', ("a, b",)), ("['a' 'b'\n 'c']", ("a", "b", "c")),
     ("('a',)", ("a",)), ("{'b', 'a'}", ("a", "b")), ("[]", ()), ("set()", ()), ("[1 2]", ("1", "2")),
     ("array(['a', 'b'], dtype='<U1')", ("a", "b")), ("[OTHER],b [c]", ("[OTHER]", "b [c]")), ("(a),b", ("(a)", "b")),
     ("[film, music]", None), ("['a' 'b' ... 'z']", None), ("[0, 1, 0]", None), ([0.0, 1.0, 1.0], None),
     ([0, 1], ("0", "1"))],
)  # fmt: skip
def test_reads_several_labels_from_a_cell(value, names):
    assert columns.several(",").read(value) == names


@pytest.mark.parametrize(
    "value, number",
    [("4.75", 4.75), (" 0 ", 0.0), (5, 5.0), ("5.0", 5.0), ("1e-1", 0.1), ("-0.1", None), ("5.1", None), ("nan", None),
     ("inf", None), (float("nan"), None), (True, None), ("1_0", None), ("", None), ("good", None), (None, None),
     ([1], None)],
)  # fmt: skip
def test_reads_a_number_from_a_cell(value, number):
    assert columns.number(0, 5).read(value) == number
    assert columns.number().read("-1e9") == -1e9 and columns.number().read("-inf") is None


@pytest.mark.parametrize(
    "value, name",
    [(1, "1"), (1.0, "1"), (-0.0, "0"), (Decimal("3.00"), "3"), (1e15, "1000000000000000"), (0.5, "0.5"),
     (True, "true"), (1e300, "1e+300"), (float("inf"), "inf"), ("1.0", "1.0"), (" 1", " 1"), (np.float32(2), "2"),
     ("a\rb", None)],
)  # fmt: skip
def test_numbers_that_are_equal_are_one_name_and_texts_stay(value, name):
    assert columns.NAME.read(value) == name


@pytest.mark.parametrize(
    "value, name",
    [("['film']", "film"), ('["a b"]', "a b"), ("['a', 'b']", None), ("[1]", "[1]"), ("[0, 10]", "[0, 10]"),
     ("[OTHER]", "[OTHER]"), ("[]", "[]"), (["a"], None), ("a", "a"), (1, "1")],
)  # fmt: skip
def test_a_label_is_one_name(value, name):
    assert columns.LABEL.read(value) == name


@pytest.mark.parametrize("value", ["yes", "No ", "TRUE", "0.0", 1, None])
def test_columns_of_yes_and_no(value):
    assert columns.YES_OR_NO.read(value) == (str(value).strip().lower() in ("yes", "true", "1"))


def test_a_separator_must_be_something():
    with pytest.raises(ValueError, match=r"`label_separator` must not be empty\. Set it to"):
        columns.several("")
