"""The scores of one file never take the place of another's."""

import json

import keras
import pytest

from bert_tf.evaluation.label_results import LabelResult
from bert_tf.evaluation.results import read_results, write_results
from bert_tf.training.scored_files import Evaluated, read_file_scores, scored_files

UNKNOWN = Evaluated()


@pytest.fixture
def home(tmp_path):
    for name in ("dev.tsv", "test.tsv", "other/test.tsv", "mismatched.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "out").mkdir()
    return tmp_path


def _score(home, *names, value=0.5, step=10, evaluated=UNKNOWN):
    """Scores files as a program does; returns the suffix of the names."""
    files = scored_files(home / "out", [home / name for name in names], step)
    write_results(str(home / "out"), {"accuracy": value}, step, suffix=files.suffix)
    files.note(evaluated)
    return files.suffix


def test_another_file_has_other_names(home, caplog):
    assert _score(home, "dev.tsv", value=0.1) == ""
    with caplog.at_level("INFO", "absl"):
        assert _score(home, "test.tsv", value=0.2) == "_test"
    written = "so those of test.tsv are written to eval_results_test.txt."
    assert f"eval_results.txt contains the metrics of dev.tsv, {written}" in caplog.messages
    assert _score(home, "other/test.tsv", value=0.3) == "_test_2"
    scores = [read_results(home / "out", suffix)["eval_accuracy"] for suffix in ("", "_test", "_test_2")]
    assert scores == [0.1, 0.2, 0.3]


def test_the_same_file_is_scored_again_under_its_name(home):
    assert _score(home, "dev.tsv") == "" and _score(home, "test.tsv") == "_test"
    (home / "dev.tsv").write_text("a label was corrected")
    assert _score(home, "dev.tsv", value=0.9) == ""
    (home / "moved.tsv").write_text("test.tsv")  # the same contents elsewhere
    assert _score(home, "moved.tsv") == "_test"
    assert read_results(home / "out")["eval_accuracy"] == 0.9


def test_scores_of_an_earlier_step_are_replaced(home):
    assert _score(home, "dev.tsv", step=10) == "" and _score(home, "test.tsv", step=10) == "_test"
    assert _score(home, "mismatched.tsv", step=20, value=0.7) == ""
    assert read_results(home / "out") == {"eval_accuracy": 0.7, "global_step": 20}
    assert _score(home, "test.tsv", step=20) == "_test" and _score(home, "dev.tsv", step=20) == "_dev"


def test_files_of_several_splits_are_one(home):
    assert _score(home, "dev.tsv", "mismatched.tsv") == ""
    (home / "out" / "eval_predictions_mismatched.tsv").write_text("of the second split")
    assert _score(home, "mismatched.tsv") == "_mismatched_2" and _score(home, "dev.tsv", "mismatched.tsv") == ""


def test_a_folder_without_a_note(home):
    write_results(str(home / "out"), {"accuracy": 0.1}, 10)
    assert scored_files(home / "out", [home / "dev.tsv"], 10).suffix == "_dev"  # nobody knows whose scores are there
    (home / "out" / "run.json").write_text(json.dumps({"data": {"dev": [{"file": str(home / "dev.tsv")}]}}))
    assert scored_files(home / "out", [home / "dev.tsv"], 10).suffix == ""
    assert scored_files(home / "out", [home / "test.tsv"], 10).suffix == "_test"
    for broken in ("[]", '{"": []}'):
        (home / "out" / "eval_files.json").write_text(broken)
        with pytest.raises(ValueError, match="eval_files.json"):
            scored_files(home / "out", [home / "dev.tsv"], 10)


def test_the_precision_of_the_scores_is_noted(home):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        _score(home, "dev.tsv")
    finally:
        keras.config.set_dtype_policy(before)
    _score(home, "test.tsv")
    assert [each.precision for each in read_file_scores(home / "out")] == ["mixed_bfloat16", "float32"]
    note = json.loads((home / "out" / "eval_files.json").read_text())
    assert note["_test"]["files"][0]["file"] == str((home / "test.tsv").resolve())


def test_what_was_scored_is_read_back(home):
    assert read_file_scores(home / "out") == []
    data, labels = {"dev": {"file": "/data/dev.tsv", "rows": 9}}, {"": {"a": LabelResult(9, 8, 7)}}
    dev = Evaluated(data, labels, frozenset({"eval_accuracy"}))
    _score(home, "dev.tsv", value=0.25, evaluated=dev)
    _score(home, "test.tsv", evaluated=Evaluated({"final": {"file": "/data/test.tsv", "rows": 3}}))
    first, second = read_file_scores(home / "out")
    assert (first.suffix, first.scores, first.step, first.evaluated) == ("", {"eval_accuracy": 0.25}, 10, dev)
    assert (first.file_of(), second.file_of(), second.suffix) == ("dev.tsv", "test.tsv", "_test")
    assert second.evaluated.fitted == frozenset() and second.evaluated.labels == {}


def test_what_was_fitted_to_a_file_remains_so(home):
    _score(home, "dev.tsv", evaluated=Evaluated(fitted=frozenset({"eval_coverage"})))
    _score(home, "dev.tsv")  # scored again with the threshold that was fitted to it
    assert read_file_scores(home / "out")[0].evaluated.fitted == {"eval_coverage"}
    _score(home, "dev.tsv", step=20)  # of other weights
    assert read_file_scores(home / "out")[0].evaluated.fitted == set()
