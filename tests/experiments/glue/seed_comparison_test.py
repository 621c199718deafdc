"""Sets of seeds in two grids, held against each other."""

import json

import pytest

from bert_tf.experiments.glue import grid_comparison
from bert_tf.experiments.glue import report as glue_report
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.runs import GlueRun
from bert_tf.experiments.glue.seed_comparison import compare_seeds
from tests.experiments.glue.glue_folder import ONE, OTHER, finish


def _grid(folder, settings, **scores):
    for task, values in scores.items():
        metric = {"cola": "matthews"}.get(task, "accuracy")
        for seed, value in enumerate(values):
            finish(folder, GlueRun(task, settings, seed), **{metric: value})
    return folder


def test_seeds_of_the_best_settings(tmp_path):
    here = _grid(tmp_path / "here", ONE, cola=(0.50, 0.52, 0.51), rte=(0.6, 0.7), wnli=(0.5,))
    _grid(here, OTHER, cola=(0.1, 0.2), rte=(0.95,))  # worse; and one seed is no set
    there = _grid(tmp_path / "there", OTHER, cola=(0.40, 0.42), rte=(0.7, 0.6), wnli=(0.5, 0.6), mrpc=(0.8, 0.9))
    cola, rte = compare_seeds(here, there)
    assert (cola.what, cola.here.settings, cola.there.settings) == ("cola", ONE, OTHER)
    assert cola.comparison.difference == pytest.approx(0.1) and cola.comparison.p_value == pytest.approx(0.1)
    assert rte.comparison.difference == 0 and rte.comparison.p_value == 1
    text = str(cola)
    told = "cola, 3 seeds against 2: +10.00, p = 0.1000 (exact; the smallest possible with this many seeds is"
    assert text.startswith(told)
    assert "51.00 ± 1.00 against 41.00 ± 1.41" in text and f"{ONE} against {OTHER}" in text
    glue_report.write_glue_report(here, glue_runs.all_finished(here), compared=[cola])
    assert "cola, 3 seeds against 2" in (here / "report.html").read_text()
    (told,) = json.loads((here / "results.json").read_text())["compared"]
    assert told["test"] == "permutation" and told["here"]["scores"] == [0.5, 0.52, 0.51]
    assert told["p_value"] == pytest.approx(0.1)


_LEARNED, _NOTHING = [("1", "1"), ("0", "1"), ("0", "0")], [("1", "1"), ("0", "1"), ("0", "1")]


def _marked(folder, **scores):
    """Makes runs on tasks: {task: (score, whether it learned something) of each seed}."""
    for task, runs in scores.items():
        for seed, (score, learned) in enumerate(runs, 1):
            finish(folder, GlueRun(task, ONE, seed), accuracy=score, answers=_LEARNED if learned else _NOTHING)
    return folder


def test_runs_that_learned_nothing_are_marked_and_not_compared(tmp_path):
    nothing, other = (0.5, False), (0.5, False)
    here = _marked(tmp_path / "here", rte=[*[nothing] * 2, (0.58, True), *[nothing] * 3], wnli=[(0.56, False)] * 2,
                   qnli=[(0.9, False), (0.8, True), (0.7, True)])  # fmt: skip
    there = _marked(tmp_path / "there", rte=[other, (0.6, True), (0.7, True)], wnli=[(0.56, False)] * 2,
                    qnli=[(0.7, True), (0.6, True)])  # fmt: skip
    qnli, rte, wnli = compare_seeds(here, there)
    assert str(rte) == (
        "rte, seeds against seeds: not compared, because models that give one answer to all examples have learned "
        "nothing: 5 of 6 and 1 of 3"
    )
    assert wnli.to_dict() == {"test": None, "what": "wnli, seeds against seeds",
                              "here": {"runs_of_one_answer": 2, "runs": 2},
                              "there": {"runs_of_one_answer": 2, "runs": 2}}  # fmt: skip
    assert qnli.comparison.difference == pytest.approx(0.1)  # of 0.8 and 0.7 against 0.7 and 0.6
    assert str(qnli).startswith("qnli, 2 seeds against 2: +10.00, p = ") and "75.00 ± 7.07 against" in str(qnli)
    assert str(qnli).endswith("; left out, for giving one answer to all: 1 and 0")

    best = glue_runs.best(glue_runs.all_finished(here))
    assert (best["qnli"].run.seed, best["rte"].run.seed, best["wnli"].run.seed) == (2, 3, 1)
    rows = glue_report.summarize_results(glue_runs.all_finished(here))
    assert (rows["rte"][0].one_answers, rows["rte"][0].learned) == (5, (0.58,))
    compared = list(grid_comparison.compare_grids(here, there))
    told = [each.row()[0] for each in compared if isinstance(each, grid_comparison.LeftOut)]
    assert told == ["wnli, best run against best run"] and len(compared) == 3

    glue_report.write_glue_report(here, glue_runs.all_finished(here), compared=[rte])
    page, table = (here / "report.html").read_text(), (here / "results.tsv").read_text().splitlines()
    assert page.count("6 seeds, 5 of which learned nothing (one prediction for all)") == 2  # so far, and of the task
    assert f"{ONE}, seed 1 (always &#x27;1&#x27;);" in page and "5 of rte" in page and "5 of 6 and 1 of 3" in page
    assert [line.split("\t")[-1] for line in table if line.startswith("rte")] == ["1", "1", "", "1", "1", "1"]
    results = json.loads((here / "results.json").read_text())
    assert [row["runs_of_one_answer"] for row in results["settings"]] == [1, 5, 2]


def test_a_setting_of_which_all_runs_learned_nothing_is_the_best_only_alone(tmp_path):
    _marked(tmp_path, rte=[(0.9, False)] * 2)
    finish(tmp_path, GlueRun("rte", OTHER, 1), accuracy=0.6, answers=_LEARNED)
    (rows,) = glue_report.summarize_results(glue_runs.all_finished(tmp_path)).values()
    assert glue_report.best_setting(rows).settings == OTHER and glue_report.best_setting(rows[:1]) is rows[0]


def test_one_run_is_no_set_of_seeds(tmp_path):
    here = _grid(tmp_path / "here", ONE, cola=(0.5, 0.6))
    one = finish(tmp_path / "there", GlueRun("cola", ONE, 1), matthews=0.5, answers=[("1", "1")])
    assert compare_seeds(here, one) == [] == compare_seeds(one, here)
    assert compare_seeds(here, tmp_path / "there") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("finished.json", "{"), ("finished.json", "[]"), ("finished.json", "{}"), ("eval_results.txt", "accuracy = x")],
)
def test_a_run_whose_files_are_damaged_is_not_finished_and_does_not_end_the_others(tmp_path, name, text):
    here = _grid(tmp_path, ONE, rte=(0.6, 0.7, 0.8))
    (GlueRun("rte", ONE, 1).folder(here) / name).write_text(text)
    assert [result.run.seed for result in glue_runs.all_finished(here)] == [0, 2]
