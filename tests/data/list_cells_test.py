"""Lists in cells of text, and names in cells with another separator."""

import json

import numpy as np
import pytest

from bert_tf.data.list_cells import as_list, find_separator, is_like_list, parse_list
from bert_tf.data.ranking_files import read_ranking_file
from bert_tf.tasks.multiple_choice.data import read_choice_file
from bert_tf.tasks.tagging.columns import read_columns

ITEMS = ["film", "it's", 'a "b", c', "[x]", "é\\n"]


NOTATIONS = {
    "Python": repr,
    "JSON": json.dumps,
    "tuple": lambda items: str(tuple(items)),
    "numpy": lambda items: str(np.array(items)),
    "numpy's repr": lambda items: repr(np.array(items, object)),
}
OTHERS = ["film", "[film]", "", "[", "(1)", "('a')", "{'a': 1}", "[1, 2", "['a', b]", "[" * 9999 + "]"]


@pytest.mark.parametrize("write", NOTATIONS.values(), ids=NOTATIONS)
def test_lists_are_read_as_they_were(write):
    assert parse_list(write(ITEMS)) == ITEMS
    assert parse_list(f" {write(ITEMS[:1])} ") == ITEMS[:1]


@pytest.mark.parametrize("text", OTHERS, ids=range(len(OTHERS)))
def test_other_texts_are_no_lists(text):
    assert parse_list(text) is None and as_list(text) is text


def test_what_seems_to_be_a_list():
    assert all(map(is_like_list, ("[film, music]", "[a;b]", "['a' ... 'b']", "[1 ... 9]")))
    assert not any(map(is_like_list, ("[OTHER]", "[a], [b]", "[a] b, c", "a, b")))


@pytest.mark.parametrize(
    "names, separator",
    [(["film", "music", "film|music"], "|"), (["a;b", "b;c", "c;a", "a"], ";"), (["Arts | Film", "Arts | Music"], None),
     (["a/b", "c"], None), (["a|", "b|", "a|b"], None), (["a", "b"], None), ([], None)],
)  # fmt: skip
def test_the_separator_of_names(names, separator):
    assert find_separator(names, ",") == separator
    assert separator is None or find_separator(names, separator) is None


def test_lists_as_text_in_lines_of_other_tasks(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"query": "q", "positives": "['a']", "negatives": "['b' 'c']"}) + "\n")
    assert read_ranking_file(path, True).documents == [["a", "b", "c"]]
    path.write_text(json.dumps({"context": "q", "choices": '["a", "b"]', "label": 1}) + "\n")
    assert read_choice_file(path, True).choices == [["a", "b"]]
    path.write_text(json.dumps({"tokens": "['Joan', 'sings']", "tags": "['B-PER' 'O']"}) + "\n")
    assert (read_columns(path).words, read_columns(path).tags) == ([["Joan", "sings"]], [["B-PER", "O"]])
    path.write_text(json.dumps({"text": "Joan sings", "entities": "[(0, 4, 'PER')]"}) + "\n")
    assert read_columns(path).tags == [["B-PER", "O"]]
