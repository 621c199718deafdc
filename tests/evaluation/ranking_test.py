"""MRR@10, nDCG@10 and MAP: by hand, and those of trec_eval on random runs with ties."""

import json

import numpy as np
import pytest

from bert_tf.evaluation.ranking import METRICS, first_relevant, rank_documents, ranking_metrics, recall_at
from tests import other_envs
from tests.parity import GOLDENS


def test_metrics_by_hand():
    # relevant at ranks 2 and 4, of three that are judged relevant
    found = ranking_metrics([[0, 2, -1, 1]], [[2, 1, 0, -1, 3]])
    ideal = 3 + 2 / np.log2(3) + 1 / 2
    assert found == pytest.approx({
        "mrr_at_10": 1 / 2, "ndcg_at_10": (2 / np.log2(3) + 1 / np.log2(5)) / ideal, "map": (1 / 2 + 2 / 4) / 3
    })  # fmt: skip
    assert list(found) == list(METRICS) and all(type(value) is float for value in found.values())


def test_the_mean_is_over_queries_and_the_cut_is_at_ten():
    late = [0] * 10 + [1]
    found = ranking_metrics([[1, 0], late, [0, 0]])
    assert found == pytest.approx({"mrr_at_10": 1 / 3, "ndcg_at_10": 1 / 3, "map": (1 + 1 / 11) / 3})
    assert [first_relevant(each) for each in ([1, 0], late, [0, 0])] == [1, 11, 3]


def test_of_equal_scores_the_higher_id_comes_first():
    assert rank_documents([0.5, 1, 0.5, 0.5], ["d2", "a", "d10", "d3"]) == [1, 3, 0, 2]
    assert rank_documents([1.0, 1.0 + 1e-9], ["b", "a"]) == [0, 1]  # equal in float32


def _runs():
    """Returns 1,000 runs, of which some documents are not judged, and of which others were not found."""
    rng, runs = np.random.default_rng(0), []
    for _ in range(1000):
        names = [f"d{number}" for number in rng.permutation(60)]
        found = names[: rng.integers(1, 40)]
        judged = [name for name in names[: len(found) + rng.integers(0, 5)] if rng.random() < 0.7] or names[:1]
        scores = rng.integers(0, 6, len(found)) / 7 + rng.random(len(found)) * 1e-9
        relevances = {name: int(rng.integers(-1, 4)) for name in judged}
        runs.append((dict(zip(found, scores.tolist(), strict=True)), relevances))
    return runs


def _metrics(scores, relevances):
    names = list(scores)
    ranked = [relevances.get(names[place], 0) for place in rank_documents(list(scores.values()), names)]
    judged = [list(relevances.values())]
    return [*ranking_metrics([ranked], judged).values(), recall_at([ranked], judged, 10)]


def test_the_first_runs_are_as_in_trec_eval():
    """As `tests/goldens/trec_eval.py` wrote them."""
    expected = json.loads((GOLDENS / "trec_eval.json").read_text(encoding="utf-8"))
    np.testing.assert_allclose([_metrics(*run) for run in _runs()[: len(expected)]], expected, atol=1e-6)


@pytest.mark.slow
def test_all_runs_are_as_in_trec_eval(tmp_path):
    (tmp_path / "runs.json").write_text(json.dumps(_runs()), encoding="utf-8")
    code = (GOLDENS / "trec_eval.py").read_text(encoding="utf-8")
    expected = json.loads(other_envs.run(other_envs.trec_eval_python(), code, tmp_path / "runs.json"))
    assert len(expected) == 1000
    np.testing.assert_allclose([_metrics(*run) for run in _runs()], expected, atol=1e-6)
