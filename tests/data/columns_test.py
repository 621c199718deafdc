"""Promises of bert_tf.data.columns: what a cell of several names or of a number says, and which ones say nothing."""

from decimal import Decimal

import numpy as np
import pytest

from bert_tf.data import columns


@pytest.mark.parametrize(
    "value, names",
    [("a", ("a",)), ("b, a ,b", ("b", "a")), ("", ()), ("  ", ()), ([], ()), (["a, b", "c"], ("a, b", "c")),
     ([1, True], ("1", "true")), (3, ("3",)), (",", None), ("a\nb", None), (None, None), ([""], None), ([["a"]], None),
     (float("nan"), None), ([1.0, 1, "1", "1.0", 2.5], ("1", "1.0", "2.5"))],
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


def test_a_separator_must_be_something():
    with pytest.raises(ValueError, match=r"`label_separator` must not be empty\. Set it to"):
        columns.several("")
