"""Chooses the values of each trial from the scores of earlier ones, with Optuna's tree-structured Parzen estimator.

    sampled.json        {"trials": [{flag: value}, ...]}, in the order in which they were suggested

Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization.
"""

import math
import os
from collections.abc import Mapping, Sequence

from bert_tf.experiments.tuning.search_space import Axis, draw_trials
from bert_tf.experiments.tuning.trials import Trial, numbered
from bert_tf.utils.files import write_text
from bert_tf.utils.json_files import json_text, read_object

SAMPLED_FILE = "sampled.json"
_RANDOM = 5  # first trials, which are random; Optuna's default of 10 would use up the budget of most searches
_ATTEMPTS = 20  # to find a combination that no earlier trial has


class TpeSampler:
    """Suggests trials sequentially, and stores them in a file in the search's directory.

    The same scores lead to the same suggestions, whether or not the search was interrupted.

    Args:
        directory: directory of the search.
        axes: the search space.
        count: number of trials.
        seed: seed of the suggestions.
        higher: whether a higher score is better.

    Raises:
        ValueError: the file is damaged.
    """

    def __init__(self, directory: str | os.PathLike, axes: Sequence[Axis], count: int, seed: int, higher: bool):
        self._path, self._axes, self._seed, self._higher = os.path.join(directory, SAMPLED_FILE), axes, seed, higher
        self.count = int(min(count, math.prod(axis.size for axis in axes)))
        self._points = self._read() if os.path.exists(self._path) else []

    def trials(self) -> list[Trial]:
        """Returns the trials that were suggested, at most the requested number."""
        return numbered(self._points[: self.count])

    def suggest(self, scores: Mapping[int, float]) -> Trial | None:
        """Returns the next trial, or None if the requested number has been reached.

        Args:
            scores: number of an earlier trial -> its score; without those that failed.
        """
        if len(self._points) >= self.count:
            return None
        self._points.append(self._find_new(scores))
        write_text(self._path, json_text({"trials": self._points}, indent=2) + "\n")
        return self.trials()[-1]

    def _find_new(self, scores):
        """Returns a combination that no trial has: the sampler's, or a random one if the sampler repeats old ones."""
        for attempt in range(_ATTEMPTS):
            point = self._ask(scores, attempt)
            if point not in self._points:
                return point
        return next(p for p in draw_trials(self._axes, len(self._points) + 1, self._seed) if p not in self._points)

    def _ask(self, scores, attempt):
        import optuna  # here, because it is slow to import and optional

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # Each trial has its own sampler, so that suggestions do not depend on earlier calls in this process.
        seed = (self._seed * 1_000_003 + len(self._points)) * _ATTEMPTS + attempt
        sampler = optuna.samplers.TPESampler(n_startup_trials=_RANDOM, seed=seed % 2**32)
        study = optuna.create_study(sampler=sampler, direction="maximize" if self._higher else "minimize")
        space = {axis.name: _distribution(axis) for axis in self._axes}
        for number, point in enumerate(self._points, 1):
            if not math.isnan(score := scores.get(number, math.nan)):
                values = {axis.name: _read_value(axis, point[axis.name]) for axis in self._axes}
                study.add_trial(optuna.trial.create_trial(params=values, distributions=space, value=score))
        values = study.ask(space).params
        return {axis.name: axis.format(values[axis.name]) for axis in self._axes}

    def _read(self):
        points = read_object(self._path, "JSON written by `bert-tf tune`", "name another `output_dir`").get("trials")
        names = {axis.name for axis in self._axes}
        for point in points if isinstance(points, list) else [None]:
            if not isinstance(point, dict) or point.keys() != names or not all(map(_is_text, point.values())):
                raise ValueError(
                    f"{self._path} must list values of {', '.join(sorted(names))}. Name another `output_dir`."
                )
        return points


def _is_text(value):
    return isinstance(value, str)


def _distribution(axis):
    """Returns the search space of an axis as an Optuna distribution."""
    from optuna import distributions

    if axis.values:
        return distributions.CategoricalDistribution(axis.values)
    if axis.whole:
        return distributions.IntDistribution(int(axis.low), int(axis.high), log=axis.is_logarithmic)
    return distributions.FloatDistribution(axis.low, axis.high, log=axis.is_logarithmic)


def _read_value(axis, text):
    """Returns a value of an axis from a command line; three digits may have rounded it out of the range."""
    if axis.values:
        return text
    number = min(max(float(text), axis.low), axis.high)
    return int(number) if axis.whole else number
