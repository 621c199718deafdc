"""The trials of a hyperparameter search: directories, progress, metrics, and promotion to the next stage."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Mapping

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.evaluation.results import RESULTS_FILE
from bert_tf.experiments.child_runs import read_finished


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial: one combination of values.

    Attributes:
        number: from 1, in the order of the search.
        values: (flag, value) of each searched flag.
    """

    number: int
    values: tuple[tuple[str, str], ...]

    def __str__(self):
        return f"trial {self.number}: {self.shown()}"

    def shown(self) -> str:
        """Returns its values as text."""
        return ", ".join(f"{name} {value}" for name, value in self.values)


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """The result of a successful trial.

    Attributes:
        trial: the trial.
        stage: stage of successive halving, from 1.
        folder: its directory.
        score: the metric that ranks it; it may be NaN.
        scores: all metrics in eval_results.txt.
        seconds: duration since its last start.
        one_answer: the model's constant prediction, with which it learned nothing; if None, predictions vary.
    """

    trial: Trial
    stage: int
    folder: pathlib.Path
    score: float
    scores: dict[str, float]
    seconds: float
    one_answer: str | None = None

    @property
    def is_of_use(self) -> bool:
        """Whether its score is meaningful: it is a number, and predictions vary."""
        return self.one_answer is None and not math.isnan(self.score)


@dataclasses.dataclass(frozen=True)
class SuccessiveHalving:
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): short runs of all, longer runs of the best.

    Every stage trains from scratch with its own schedule that ends at learning rate 0: a shortened run would be ranked
    in the middle of its schedule.

    Attributes:
        count: number of stages; half of the trials of each continue, with twice the epochs.
    """

    count: int = 1

    def epochs(self, whole: float, stage: int) -> float:
        """Returns the epochs of a stage, counted from 1, if the last one has `whole`."""
        return whole / 2 ** (self.count - stage)

    def trials(self, whole: int, stage: int) -> int:
        """Returns the number of trials in a stage, if the first one has `whole`."""
        return -(-whole // 2 ** (stage - 1))


class Folder:
    """The directory of a search, with its trials and their results.

    Args:
        path: the directory.
        stages: stages of the search.
        metric: the metric that ranks trials, as in eval_results.txt, with or without "eval_".

    Raises:
        ValueError: no command has a metric of that name.
    """

    def __init__(self, path: str | os.PathLike, stages: SuccessiveHalving, metric: str):
        self.path, self.stages = pathlib.Path(path), stages
        self.metric = f"eval_{metric.removeprefix('eval_')}"  # trials are evaluated only with do_eval
        try:
            self.higher = higher_is_better(self.metric)
        except ValueError as error:
            raise ValueError(
                "`tuning_metric` must be a metric in eval_results.txt, such as accuracy, f1 or loss; "
                f"got {metric!r}."
            ) from error

    def of(self, trial: Trial, stage: int) -> pathlib.Path:
        """Returns the directory of a trial."""
        parent = self.path / f"stage-{stage}" if self.stages.count > 1 else self.path
        return parent / f"trial-{trial.number}"

    def result(self, trial: Trial, stage: int) -> TrialResult | None:
        """Returns the result of a trial; None if it has not finished successfully, or the record of it is damaged.

        Raises:
            ValueError: it does not have the metric.
        """
        folder = self.of(trial, stage)

        def build(note, scores, one_answer):
            score, seconds = scores.get(self.metric), float(note["seconds"])
            return TrialResult(trial, stage, folder, score, scores, seconds, one_answer)

        result = read_finished(folder, build)
        if result and result.score is None:
            raise ValueError(
                f"`tuning_metric` must be in {folder / RESULTS_FILE}, one of "
                f"{', '.join(sorted(result.scores))}; got {self.metric!r}."
            )
        return result

    def results(self, trials: Iterable[Trial]) -> list[TrialResult]:
        """Returns the results of trials in all their stages, by stage and then in order."""
        trials = list(trials)
        found = [self.result(trial, stage) for stage in range(1, self.stages.count + 1) for trial in trials]
        return [result for result in found if result]

    def ranked(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns results from the best to the worst; ties keep their order.

        They are followed by trials with a constant prediction, regardless of their score; NaN comes last.
        """
        sign = -1 if self.higher else 1

        def sort_key(result):
            is_none = math.isnan(result.score)
            return is_none, result.one_answer is not None, 0.0 if is_none else sign * result.score

        return sorted(results, key=sort_key)

    def best(self, results: Iterable[TrialResult]) -> TrialResult | None:
        """Returns the best trial of the last stage reached; None if no score is a number."""
        results = [result for result in results if not math.isnan(result.score)]
        furthest = max((result.stage for result in results), default=0)
        return next(iter(self.ranked(r for r in results if r.stage == furthest)), None)

    def as_good(self, results: Iterable[TrialResult]) -> list[TrialResult]:
        """Returns the other results with the same score and stage as the best one, which is merely listed first."""
        results = list(results)
        best = self.best(results)
        equal = [r for r in results if best and r != best and (r.stage, r.score) == (best.stage, best.score)]
        return [r for r in equal if r.is_of_use == best.is_of_use]


def format_trial_numbers(trials: Iterable[Trial]) -> str:
    """Returns the numbers of trials as text: "trial 2, trial 4"."""
    return ", ".join(f"trial {trial.number}" for trial in trials)


def numbered(points: Iterable[Mapping[str, str]]) -> list[Trial]:
    """Creates trials from combinations of values."""
    return [Trial(number, tuple(point.items())) for number, point in enumerate(points, 1)]
