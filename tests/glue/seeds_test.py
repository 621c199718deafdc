"""Sets of seeds in two grids, held against each other."""

import json

import pytest

from bert_tf.glue import report as glue_report
from bert_tf.glue import runs as glue_runs
from bert_tf.glue.runs import Run
from bert_tf.glue.seeds import compare_seeds
from tests.glue.glue_folder import ONE, OTHER, finish


def _grid(folder, settings, **scores):
    for task, values in scores.items():
        metric = {"cola": "matthews"}.get(task, "accuracy")
        for seed, value in enumerate(values):
            finish(folder, Run(task, settings, seed), **{metric: value})
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
    assert text.startswith("cola, 3 seeds against 2: +10.00, p = 0.1000 (exact; the least that so many seeds can give")
    assert "51.00 ± 1.00 here, 41.00 ± 1.41 there" in text and f"{ONE} here, {OTHER} there" in text
    glue_report.write(here, glue_runs.all_finished(here), compared=[cola])
    assert "cola, 3 seeds against 2" in (here / "report.html").read_text()
    (told,) = json.loads((here / "results.json").read_text())["compared"]
    assert told["test"] == "permutation" and told["here"]["scores"] == [0.5, 0.52, 0.51]
    assert told["p_value"] == pytest.approx(0.1)


def test_one_run_is_no_set_of_seeds(tmp_path):
    here = _grid(tmp_path / "here", ONE, cola=(0.5, 0.6))
    one = finish(tmp_path / "there", Run("cola", ONE, 1), matthews=0.5, answers=[("1", "1")])
    assert compare_seeds(here, one) == [] == compare_seeds(one, here)
    assert compare_seeds(here, tmp_path / "there") == []
