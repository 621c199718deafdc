"""Trials by the scores of earlier ones: better than random ones, different from each other, and kept in a file."""

import json
import math
import statistics

import pytest

from bert_tf.experiments.tuning.samplers import SAMPLED_FILE, TpeSampler
from bert_tf.experiments.tuning.search_space import parse_axes
from bert_tf.utils.settings import Flag

FLAGS = [
    Flag("learning_rate", 5e-5, "", "float", decides_result=True),
    Flag("train_batch_size", 8, "", "integer", decides_result=True),
]
AXES = parse_axes("learning_rate=1e-6..1e-1;train_batch_size=4..40", FLAGS)


def _score(values):
    """Is the higher, the nearer the learning rate is to 1e-3 and the batch to 10."""
    return -abs(math.log10(float(values["learning_rate"])) + 3) - abs(math.log10(int(values["train_batch_size"])) - 1)


def _sample(folder, count, seed=1, higher=True, sign=1):
    """Returns the values of all trials; the sampler is told sign * score of each before the next one."""
    folder.mkdir(exist_ok=True)
    sampler, scores = TpeSampler(folder, AXES, count, seed, higher), {}
    while trial := sampler.suggest(scores):
        scores[trial.number] = _score(dict(trial.values)) * sign
    return [dict(trial.values) for trial in sampler.trials()]


def _mean_of_later(folder, **how):
    """Returns the mean score of the trials after the first random ones, in searches with several seeds."""
    return statistics.fmean(
        _score(point) for seed in range(4) for point in _sample(folder / f"{seed} {how}", 20, seed, **how)[5:]
    )


@pytest.mark.slow
def test_later_trials_go_where_scores_were_good(tmp_path):
    pytest.importorskip("optuna", reason="needs bert-tf[tune]")
    best, worst = _mean_of_later(tmp_path, higher=True), _mean_of_later(tmp_path, higher=False)
    assert best > worst + 0.5
    assert _mean_of_later(tmp_path, higher=False, sign=-1) == best


def test_a_higher_count_adds_trials_and_a_lower_one_takes_the_first(tmp_path):
    pytest.importorskip("optuna", reason="needs bert-tf[tune]")
    first = _sample(tmp_path, 4)
    assert json.loads((tmp_path / SAMPLED_FILE).read_text()) == {"trials": first}
    fewer = TpeSampler(tmp_path, AXES, 2, 1, True)
    assert [dict(trial.values) for trial in fewer.trials()] == first[:2] and fewer.suggest({}) is None


def test_values_are_those_of_the_axes_and_no_trial_comes_twice(tmp_path):
    pytest.importorskip("optuna", reason="needs bert-tf[tune]")
    axes = parse_axes("learning_rate=1e-5,auto;train_batch_size=7..8", FLAGS)
    points, sampler = [], TpeSampler(tmp_path, axes, 10, 1, True)
    while trial := sampler.suggest({n: math.nan for n in range(9)}):
        points.append(trial.values)
    assert sampler.count == 4
    assert sorted(points) == [(("learning_rate", rate), ("train_batch_size", size)) for rate in ("1e-5", "auto")
                              for size in "78"]  # fmt: skip


@pytest.mark.parametrize("trials", [[{"seed": "1"}], 3, [{"learning_rate": 1, "train_batch_size": "8"}], None])
def test_a_damaged_list_of_trials_is_refused(tmp_path, trials):
    (tmp_path / SAMPLED_FILE).write_text(json.dumps({"trials": trials}))
    with pytest.raises(ValueError, match=r"sampled\.json must list values of learning_rate, train_batch_size\. Name"):
        TpeSampler(tmp_path, AXES, 5, 1, True)
