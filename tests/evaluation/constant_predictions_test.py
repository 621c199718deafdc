"""One answer where there should be several."""

import pytest

from bert_tf.evaluation.constant_predictions import only_answer, only_answer_in


@pytest.mark.parametrize(
    "columns, expected",
    [
        ({"label": ["a", "b"], "prediction": ["b", "b"]}, "b"),
        ({"label": ["a", "b"], "prediction": ["", ""]}, ""),  # of models that may give none of several labels
        ({"label": ["1.0", "4.5"], "prediction": ["2.5", "2.5"]}, "2.5"),
        ({"label": ["a", "b"], "prediction": ["b", "a"]}, None),
        ({"label": ["b", "b"], "prediction": ["b", "b"]}, None),  # as it should be
        ({"tags": ["B-X O", "O"], "predicted_tags": ["O O", "O"]}, "O"),
        ({"tags": ["B-X O", "O"], "predicted_tags": ["O B-X", "O"]}, None),
        ({"tags": ["O O", "O"], "predicted_tags": ["O O", "O"]}, None),
        ({"answer": ["x", ""], "prediction": ["", ""], "exact": ["0", "1"]}, ""),
        ({"place": ["1", "1"]}, None),
        ({}, None),
    ],
)
def test_one_answer_where_there_should_be_several(columns, expected):
    assert only_answer(columns) == expected


def test_of_a_folder(tmp_path):
    assert only_answer_in(tmp_path) is None
    path = tmp_path / "eval_predictions.tsv"
    path.write_text("id\tlabel\tprediction\ttext\n0\tno\tyes\ta\n1\tyes\tyes\tb\n")
    assert only_answer_in(tmp_path) == "yes"
    path.write_text("id\tlabel\tprediction\n0\tno\tyes\n1\tyes\tno\n")
    assert only_answer_in(tmp_path) is None
