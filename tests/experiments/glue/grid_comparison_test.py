"""Two runs, and the best runs of two grids, are held against each other on the same examples only."""

import json

import pytest

from bert_tf.evaluation.results import write_results
from bert_tf.experiments.glue import grid_comparison
from bert_tf.experiments.glue import report as glue_report
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.runs import GlueRun
from tests import tiny
from tests.experiments.glue.glue_folder import ONE, OTHER, finish, five_runs, program, write_answers


@pytest.fixture
def grid(tmp_path):
    return five_runs(tmp_path)


_RIGHT = [(label, label) for label in "0110100110010110"]
_WORSE = [(label, label if i % 3 else "1") for i, (label, _) in enumerate(_RIGHT)]


def test_best_against_best(grid, tmp_path):
    write_answers(grid / "cola" / ONE.folder / "seed-2" / "eval_predictions.tsv", _RIGHT)
    other = tmp_path / "other"
    there = finish(other, GlueRun("cola", OTHER, 1), matthews=0.5, answers=_WORSE)
    for place in (other, there):
        (found,) = grid_comparison.compare_grids(grid, place)
        assert (found.what, found.metric, found.there) == ("cola", "eval_matthews", there)
        assert found.comparison.a == pytest.approx(1) and 0 < found.comparison.difference < 1
    assert str(found).startswith("cola, matthews: 100.00 against ")
    glue_report.write_glue_report(grid, glue_runs.all_finished(grid), compared=[found])
    assert ">Comparison</h2>" in (grid / "report.html").read_text()
    assert json.loads((grid / "results.json").read_text())["compared"][0]["difference"] == found.comparison.difference


@pytest.mark.slow
def test_two_runs_that_run_glue_did_not_make(tmp_path):
    folders = []
    for name, shift in (("one", 0.0), ("two", 1.5)):
        folder = tmp_path / name
        folder.mkdir()
        write_results(str(folder), {"pearson": 0.5, "spearman": 0.5, "pearson_b": 0.5, "loss": 1.0}, 9)
        for suffix in ("", "_b"):
            rows = [(f"{i / 2}", f"{i / 2 + shift * (i % 3):.3f}") for i in range(12)]
            write_answers(folder / f"eval_predictions{suffix}.tsv", rows)
        folders.append(folder)
    found = grid_comparison.compare_grids(*folders)
    assert [c.metric for c in found] == ["eval_pearson", "eval_pearson_b", "eval_spearman"]
    assert all(c.comparison.a == pytest.approx(1) and c.comparison.difference > 0 for c in found)
    done = program(f"--output_dir={folders[0]}", f"--compare={folders[1]}")
    assert done.returncode == 0 and "pearson: 100.00 against " in done.stderr, done.stderr
    assert not (folders[0] / "report.html").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (_RIGHT[:-1], r"\(15 examples\) and .* \(16 examples\) differ from example 16 on"),
        ([("1", "1"), *_RIGHT[1:]], "must be evaluated on the same examples. .* differ from example 1 on"),
    ],
)
def test_other_examples_are_not_compared(tmp_path, rows, message):
    one = finish(tmp_path / "a", GlueRun("cola", ONE, 1), matthews=1.0, answers=_RIGHT)
    other = finish(tmp_path / "b", GlueRun("cola", ONE, 1), matthews=1.0, answers=rows)
    with pytest.raises(ValueError, match=message):
        grid_comparison.compare_grids(one, other)


def test_a_file_may_have_more_columns_and_another_order(tmp_path):
    one = finish(tmp_path / "a", GlueRun("cola", ONE, 1), matthews=1.0, answers=_RIGHT)
    other = finish(tmp_path / "b", GlueRun("cola", ONE, 1), matthews=1.0, answers=_RIGHT)
    rows = [(str(i), *row, "0.9", "a text") for i, row in enumerate(_RIGHT)]
    tiny.write_tsv(other / "eval_predictions.tsv", rows[::-1], "id\tlabel\tprediction\tprobability\ttext")
    (compared,) = grid_comparison.compare_grids(one, other)
    assert compared.comparison.difference == 0 and compared.comparison.b == 1


def test_grids_without_a_task_in_common_are_refused(tmp_path, grid):
    other = finish(tmp_path / "b", GlueRun("rte", ONE, 1), accuracy=1.0, answers=_RIGHT)
    with pytest.raises(ValueError, match="no task in common: .* has rte, .* cola, mrpc"):
        grid_comparison.compare_grids(grid, other)


def test_runs_of_several_labels_are_compared_as_decisions(tmp_path):
    for name, given in (("one", "music,sport"), ("two", "music")):
        folder = tmp_path / name
        folder.mkdir()
        write_results(str(folder), {"accuracy": 0.5, "f1": 0.5, "loss": 1.0}, 9)
        write_answers(folder / "eval_predictions.tsv", [("music,sport", given), ("", "sport"), ("sport", "sport")])
        (folder / "labels.txt").write_text("music\nsport\n")
        (folder / "task.json").write_text('{"task": "classification", "problem": "multi_label"}', encoding="utf-8")
    found = {each.metric: each.comparison for each in grid_comparison.compare_grids(tmp_path / "one", tmp_path / "two")}
    assert (found["eval_accuracy"].a, found["eval_accuracy"].b) == pytest.approx((5 / 6, 4 / 6))
    assert (found["eval_f1"].a, found["eval_f1"].b) == pytest.approx((6 / 7, 2 / 3))


@pytest.mark.parametrize(
    "key, expected",
    [
        ("eval_f1", ("f1", "")),
        ("eval_f1_mismatched", ("f1", "mismatched")),
        ("eval_weighted_f1_mismatched", ("weighted_f1", "mismatched")),
        ("eval_precision_at_recall_90", None),
        ("eval_loss", None),
    ],
)
def test_a_key_is_a_metric_on_a_dev_file(key, expected):
    assert glue_runs.metric_and_file(key, ("precision", "f1", "weighted_f1")) == expected
