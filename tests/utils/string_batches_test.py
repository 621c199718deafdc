"""Lists of strings in chunks: all of them, in order, of about one size."""

import pytest

from bert_tf.utils.string_batches import split_by_characters


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_the_parts_are_the_list(size):
    strings = ["a", "", "bcd", "ef", "", "g" * 7, "h"]
    parts = split_by_characters(strings, size)
    assert [s for part in parts for s in part] == strings and all(parts)


def test_parts_have_about_the_size():
    assert split_by_characters(["ab", "cd", "ef", "gh"], 4) == [["ab"], ["cd", "ef"], ["gh"]]


def test_an_empty_list_is_one_empty_part():
    assert split_by_characters([]) == [[]]
