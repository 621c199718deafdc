"""The files with the predictions of a classifier."""

import json

import numpy as np

from bert_tf.tasks.classification.outputs import leaderboard, write_class_predictions
from tests.tasks.support import labeled_texts


def test_predictions_in_order_with_the_texts_and_the_fields_of_an_answer(tmp_path):
    probabilities = np.array([[0.25, 0.75], [0.5, 0.5]])
    examples = labeled_texts(("gut\u2028so", None), ("b\n", None))
    write_class_predictions(tmp_path, examples, probabilities, ["no", "yes"])
    assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n0.5\t0.5\n"
    lines = (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").split("\n")
    assert [list(json.loads(line).items()) for line in lines[:-1]] == [
        [("id", "0"), ("text", "gut\u2028so"), ("label", "yes"), ("probabilities", {"no": 0.25, "yes": 0.75})],
        [("id", "1"), ("text", "b\n"), ("label", "no"), ("probabilities", {"no": 0.5, "yes": 0.5})],
    ]
    assert lines[-1] == ""


def test_predictions_of_pairs(tmp_path):
    write_class_predictions(tmp_path, labeled_texts(("a", "")), np.array([[1.0]]), ["x"], "_mismatched")
    assert list(json.loads((tmp_path / "predictions_mismatched.jsonl").read_text())) == [
        "id", "text_a", "text_b", "label", "probabilities"]  # fmt: skip
    assert (tmp_path / "test_results_mismatched.tsv").read_text() == "1.0\n"


def test_predictions_of_scores(tmp_path):
    write_class_predictions(tmp_path, labeled_texts(("a", "b"), ("c", "d")), np.array([4.5, -0.25]), None)
    assert (tmp_path / "test_results.tsv").read_text() == "4.5\n-0.25\n"
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert lines[1] == {"id": "1", "text_a": "c", "text_b": "d", "score": -0.25}


def test_each_test_file_of_a_task_has_its_file_on_the_leaderboard():
    named = {split: leaderboard("MNLI", split) for split in ("test", "test_mismatched")}
    assert named == {"test": ("MNLI-m.tsv", None), "test_mismatched": ("MNLI-mm.tsv", None)}
